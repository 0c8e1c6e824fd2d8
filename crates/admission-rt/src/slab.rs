//! A table of things under small numbers that are used again.
//!
//! Owns: the free list. Lacks generations: whoever holds a number is the only one to use it, and
//! gives it back once.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// `None` when there are no numbers left.
    pub(crate) fn insert(&mut self, value: T) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.entries[number as usize] = Some(value);
            return Some(number);
        }
        let number = u32::try_from(self.entries.len()).ok()?;
        self.entries.push(Some(value));
        Some(number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let value = self.entries.get_mut(number as usize)?.take()?;
        self.free.push(number);
        if self.free.len() == self.entries.len() {
            // Empty: start over, so that a burst long ago does not make every later pass long.
            self.entries.clear();
            self.free.clear();
        }
        Some(value)
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut slab = Slab::new();
        assert_eq!((slab.insert('a'), slab.insert('b')), (Some(0), Some(1)));
        assert_eq!((slab.remove(0), slab.remove(0)), (Some('a'), None));
        assert_eq!((slab.insert('c'), slab.len()), (Some(0), 2));
        assert_eq!((slab.remove(0), slab.remove(1), slab.len()), (Some('c'), Some('b'), 0));
        assert_eq!(slab.insert('d'), Some(0));
        assert_eq!(slab.iter_mut().count(), 1);
    }
}
