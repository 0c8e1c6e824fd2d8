//! What was measured: tables of cases, and of each case named numbers.
//!
//! Owns: their order, and their form as a file, so that one part can be measured anew and the page be
//! written from all. Lacks units and judgement: those are the page's and the goals'.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// All that was measured so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    tables: Vec<(String, Rows)>,
}

/// The cases of a table with their numbers, in order.
pub type Rows = Vec<(String, Vec<(String, f64)>)>;

impl Results {
    /// Those in a file; none if there is no such file.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let Ok(text) = fs::read_to_string(path) else { return Ok(Self::default()) };
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut results = Self::default();
        for table in value.as_array().into_iter().flatten() {
            let name = table["table"].as_str().unwrap_or_default();
            for row in table["rows"].as_array().into_iter().flatten() {
                let case = row["case"].as_str().unwrap_or_default();
                for (metric, number) in row["values"].as_object().into_iter().flatten() {
                    if let Some(number) = number.as_f64() {
                        results.set(name, case, metric, number);
                    }
                }
            }
        }
        Ok(results)
    }

    /// Writes them to a file.
    ///
    /// # Errors
    ///
    /// Says why that did not work.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(|(name, rows)| {
                let rows: Vec<Value> = rows
                    .iter()
                    .map(|(case, values)| {
                        let values: Map<String, Value> =
                            values.iter().map(|(metric, number)| (metric.clone(), json!(number))).collect();
                        json!({ "case": case, "values": values })
                    })
                    .collect();
                json!({ "table": name, "rows": rows })
            })
            .collect();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        fs::write(path, format!("{:#}\n", Value::from(tables)))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Notes a number. What is not finite was not measured.
    pub fn set(&mut self, table: &str, case: &str, metric: &str, number: f64) {
        if !number.is_finite() {
            return;
        }
        let values = entry(entry(&mut self.tables, table), case);
        match values.iter_mut().find(|(name, _)| name == metric) {
            Some((_, old)) => *old = number,
            None => values.push((metric.to_owned(), number)),
        }
    }

    /// A number, if it was measured.
    #[must_use]
    pub fn get(&self, table: &str, case: &str, metric: &str) -> Option<f64> {
        let rows = self.rows(table)?;
        let (_, values) = rows.iter().find(|(name, _)| name == case)?;
        values.iter().find(|(name, _)| name == metric).map(|(_, number)| *number)
    }

    /// The cases of a table.
    #[must_use]
    pub fn rows(&self, table: &str) -> Option<&Rows> {
        self.tables.iter().find(|(name, _)| name == table).map(|(_, rows)| rows)
    }

    /// Takes over what another has.
    pub fn merge(&mut self, other: &Self) {
        for (table, rows) in &other.tables {
            for (case, values) in rows {
                for (metric, number) in values {
                    self.set(table, case, metric, *number);
                }
            }
        }
    }
}

fn entry<'a, T: Default>(list: &'a mut Vec<(String, T)>, name: &str) -> &'a mut T {
    let at = list.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
        list.push((name.to_owned(), T::default()));
        list.len() - 1
    });
    &mut list[at].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut results = Results::default();
        results.set("one", "b", "ns", 1.5);
        results.set("one", "a", "ns", 2.0);
        results.set("one", "b", "ns", 3.0);
        results.set("one", "b", "ratio", f64::NAN);
        let folder = std::env::temp_dir().join(format!("admission-bench-{}", std::process::id()));
        let path = folder.join("results.json");
        results.write(&path).unwrap();
        assert_eq!(Results::read(&path).unwrap(), results);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Results::read(&path).unwrap(), Results::default());
        assert_eq!(results.get("one", "b", "ns"), Some(3.0));
        assert_eq!(results.get("one", "b", "ratio"), None);
        assert_eq!(results.rows("one").unwrap()[0].0, "b");
    }
}
