//! Keys: what a caller names a call by, and the number that the machine compares.
//!
//! Owns: the interner, with a lock of its own that is never held together with the coordinator's.
//! Lacks any hash that could stand for a text: two texts have one number only if they are the same
//! (rule D3).

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, Hasher};

use hashbrown::HashTable;

use crate::guests::KEPT;
use crate::rejected::Plain;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names one logical call: at most one call with the same key is granted or running in a
/// coordinator at any time, whichever provider it goes to (rules L1, E6).
///
/// A number needs no memory of its own. A text is compared exactly, is remembered only while some call has
/// it, and costs a few small allocations per call. A number never equals a text.
///
/// It may come from anywhere. Displayed, a text stays on its line: what would break or turn it is escaped.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key(Name);

impl From<u64> for Key {
    #[inline]
    fn from(number: u64) -> Self {
        Self(Name::Number(number))
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self(Name::Text(text.into()))
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(Name::Text(text.into()))
    }
}

impl From<&String> for Key {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Number(number) => number.fmt(f),
            Name::Text(text) => f.pad(&Plain(text).to_string()),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Name {
    Number(u64),
    Text(Box<str>),
}

/// The keys that have a number other than themselves: texts, and numbers that a text's number could
/// be taken for.
#[derive(Default)]
pub(crate) struct Keys {
    table: Mutex<Table>,
    /// Each text is hashed once, before the lock: its entry and whoever keeps that know the hash.
    hasher: RandomState,
    scatter: Scatter,
}

#[derive(Default)]
struct Table {
    /// No decision depends on its order (rule O3).
    entries: HashTable<Entry>,
    given: u64,
}

struct Entry {
    name: Name,
    hash: u64,
    number: u64,
    users: usize,
}

impl Keys {
    /// The number of a key that needs nothing to keep it so; or the key.
    #[inline]
    pub(crate) fn plain(&self, key: Key) -> Result<u64, Key> {
        match key.0 {
            Name::Number(number) if number & INTERNED == 0 => Ok(self.scatter.there(number)),
            name => Err(Key(name)),
        }
    }

    /// The number of a key that has none of its own, and what keeps it so.
    pub(crate) fn intern(self: &Arc<Self>, Key(name): Key) -> (u64, KeyGuard) {
        let hash = self.hash(&name);
        let mut table = self.lock();
        let number = if let Some(entry) = table.entries.find_mut(hash, |entry| entry.name == name) {
            entry.users += 1;
            entry.number
        } else {
            // 2^63 names later a number would be given twice; at a billion a second that is 292 years. Scattered,
            // too: whoever goes on using just those whose turns lie in one place would find them in one place.
            let number = INTERNED | self.scatter.there(table.given);
            table.given += 1;
            table.entries.insert_unique(hash, Entry { name, hash, number, users: 1 }, |entry| entry.hash);
            number
        };
        drop(table);
        (number, KeyGuard { keys: self.clone(), hash, number })
    }

    /// That of a number may be that of a text: they are compared.
    fn hash(&self, name: &Name) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        match name {
            Name::Number(number) => hasher.write_u64(*number),
            Name::Text(text) => hasher.write(text.as_bytes()),
        }
        hasher.finish()
    }

    /// The keys behind these numbers, as far as anybody still has them. Walks all keys, once.
    pub(crate) fn keys(&self, numbers: impl Iterator<Item = u64>) -> HashMap<u64, Key> {
        let (interned, own): (Vec<u64>, Vec<u64>) = numbers.partition(|number| number & INTERNED != 0);
        let mut keys: HashMap<u64, Key> =
            own.into_iter().map(|number| (number, Key(Name::Number(self.scatter.back(number))))).collect();
        if !interned.is_empty() {
            let interned: HashSet<u64> = interned.into_iter().collect();
            let table = self.lock();
            let known = table.entries.iter().filter(|entry| interned.contains(&entry.number));
            keys.extend(known.map(|entry| (entry.number, Key(entry.name.clone()))));
        }
        keys
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The top bit marks numbers that were given out here.
const INTERNED: u64 = 1 << 63;

/// Scatters the numbers that callers choose, and those of texts, by secrets of one coordinator's own.
///
/// The machine finds keys by a hash that everybody can compute (it has no source of chance), so whoever
/// chooses the numbers could choose such as lie in one place, and make every decision a walk past all of them.
/// What the machine gets from here nobody can foresee. Each number becomes another one below 2^63, and no two
/// the same, so that nothing need be compared or remembered; no decision depends on which (rule O3).
struct Scatter {
    flip: u64,
    times: [u64; 2],
    back: [u64; 2],
}

impl Default for Scatter {
    fn default() -> Self {
        let secrets = RandomState::new();
        let times = [1_u64, 2].map(|nth| secrets.hash_one(nth) | 1);
        Self { flip: secrets.hash_one(0_u64) & !INTERNED, times, back: times.map(inverse) }
    }
}

impl Scatter {
    #[inline]
    const fn there(&self, number: u64) -> u64 {
        let first = (number ^ self.flip).wrapping_mul(self.times[0]) & !INTERNED;
        (first ^ first >> 32).wrapping_mul(self.times[1]) & !INTERNED
    }

    const fn back(&self, number: u64) -> u64 {
        let mixed = number.wrapping_mul(self.back[1]) & !INTERNED;
        // 32 bits are more than half of 63: mixing them once more undoes it.
        ((mixed ^ mixed >> 32).wrapping_mul(self.back[0]) & !INTERNED) ^ self.flip
    }
}

/// What undoes a multiplication by an odd number. Each round doubles the bits that are right, from three.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut bits = 3;
    while bits < u64::BITS {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

/// Keeps a key's number, by which the machine knows the call.
pub(crate) struct KeyGuard {
    keys: Arc<Keys>,
    hash: u64,
    number: u64,
}

impl Clone for KeyGuard {
    fn clone(&self) -> Self {
        let mut table = self.keys.lock();
        if let Some(entry) = table.entries.find_mut(self.hash, |entry| entry.number == self.number) {
            entry.users += 1;
        }
        drop(table);
        Self { keys: self.keys.clone(), hash: self.hash, number: self.number }
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        let mut table = self.keys.lock();
        let entries = &mut table.entries;
        let Ok(mut entry) = entries.find_entry(self.hash, |entry| entry.number == self.number) else {
            return;
        };
        entry.get_mut().users -= 1;
        if entry.get().users == 0 {
            entry.remove();
            if entries.is_empty() && entries.capacity() > KEPT {
                entries.shrink_to_fit(|entry| entry.hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(keys: &Arc<Keys>, key: impl Into<Key>) -> (u64, Option<KeyGuard>) {
        match keys.plain(key.into()) {
            Ok(number) => (number, None),
            Err(key) => {
                let (number, guard) = keys.intern(key);
                (number, Some(guard))
            }
        }
    }

    // rule D3
    #[test]
    fn a_key_is_forgotten_when_nobody_has_it() {
        let keys = Arc::<Keys>::default();
        let (first, a) = number(&keys, "repo");
        let (second, b) = number(&keys, String::from("repo"));
        let (other, c) = number(&keys, "Repo");
        let again = b.clone();
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert_eq!(keys.lock().entries.len(), 2);
        drop(a);
        assert_eq!(number(&keys, "repo").0, first, "one of two is still there");
        drop((b, c));
        assert_eq!(number(&keys, "repo").0, first, "a clone is another user");
        drop(again);
        assert_eq!(keys.lock().entries.len(), 0);
        assert_ne!(number(&keys, "repo").0, first, "a number is not given twice");
    }

    // rule D3
    #[test]
    fn no_number_equals_a_text() {
        let keys = Arc::<Keys>::default();
        let (text, _a) = number(&keys, "text");
        let (same, _b) = number(&keys, text);
        assert_ne!(text, same, "a number with the top bit is a name like any other");
        let (again, _c) = number(&keys, text);
        assert_eq!(same, again);
        for small in [0, 1, u64::MAX >> 1] {
            let (number, guard) = number(&keys, small);
            assert!(number < INTERNED && guard.is_none(), "without an entry");
            let back = keys.keys([number].into_iter());
            assert_eq!(back[&number], Key::from(small));
        }
        let (digits, _d) = number(&keys, "7");
        assert_ne!(digits, number(&keys, 7).0);
    }

    // rule D3
    #[test]
    fn no_two_numbers_become_one() {
        for _ in 0..100 {
            let scatter = Scatter::default();
            let edges = (0..63).flat_map(|bit| [1 << bit, (1 << bit) - 1, !INTERNED ^ 1 << bit, !INTERNED]);
            for number in edges {
                assert!(scatter.there(number) < INTERNED);
                assert_eq!(scatter.back(scatter.there(number)), number);
            }
        }
    }

    /// How the machine scatters keys over its table, as anybody can read: the highest bits say where. (In the core
    /// it is `Scattered::of` and `KeyTable::home`.)
    fn place(key: u64) -> usize {
        ((key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
    }

    // rule E7
    #[test]
    fn nobody_can_choose_texts_that_lie_in_one_place() {
        let keys = Arc::<Keys>::default();
        let mut crowd = [0; 256];
        let mut kept = Vec::new();
        // Only those whose turn to get a number comes at the right time are used any longer.
        for turn in 0..200_000_u64 {
            let (number, guard) = keys.intern(Key::from(format!("{turn}")));
            if place(INTERNED | turn) == 0 {
                crowd[place(number)] += 1;
                kept.push(guard);
            }
        }
        // About three in each place, and not eight hundred in one.
        assert!(kept.len() > 500 && crowd.iter().all(|&there| there < 30), "{crowd:?}");
    }

    // rule E7
    #[test]
    fn nobody_can_choose_numbers_that_lie_in_one_place() {
        let hostile: Vec<u64> = (0..).filter(|&key| place(key) == 0).take(2_000).collect();
        // And others that differ in their highest bits only, or by one step.
        let combs = [48, 40, 20].map(|shift| (0..2_000).map(|n| n << shift & !INTERNED).collect());
        for keys in [hostile].into_iter().chain(combs) {
            let scatter = Scatter::default();
            let mut crowd = [0; 256];
            keys.iter().for_each(|&key| crowd[place(scatter.there(key))] += 1);
            // About eight in each place, and not two thousand in one.
            assert!(crowd.iter().all(|&there| there < 60), "{crowd:?}");
        }
    }
}
