//! Filters and orders of lists, as their addresses have them.

use crate::text::encoded;

/// Parameters of an address that filter nothing.
const OTHERS: [&str; 4] = ["cursor", "limit", "reasons", "sort"];

/// The filters of a list, and its order.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Names and values, none of them empty.
    pairs: Vec<(String, String)>,
    /// The key of the order, with a minus if it is descending; empty for the usual one.
    pub sort: String,
}

impl Filters {
    /// The filters among the parameters of an address.
    #[must_use]
    pub fn new(parameters: &[(String, String)]) -> Self {
        let sort = parameters.iter().find(|(name, _)| name == "sort");
        let set = |(name, value): &&(String, String)| {
            !value.is_empty() && !OTHERS.contains(&name.as_str())
        };
        Self {
            sort: sort.map(|(_, sort)| sort.clone()).unwrap_or_default(),
            pairs: parameters.iter().filter(set).cloned().collect(),
        }
    }

    /// True if nothing is filtered.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The value of a filter; empty if it is not set.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        let found = self.pairs.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// The address of the first page in another order, with the same filters.
    fn sorted_by(&self, sort: &str) -> String {
        let mut query = String::from("?");
        for (name, value) in &self.pairs {
            query.push_str(&format!("{}={}&", encoded(name), encoded(value)));
        }
        query.push_str(&format!("sort={sort}"));
        query
    }
}

/// A column of a list.
pub struct Column {
    pub label: &'static str,
    pub is_number: bool,
    /// The key of its order, if rows can be sorted by it.
    pub key: Option<&'static str>,
}

impl Column {
    #[must_use]
    pub const fn text(label: &'static str) -> Self {
        Self {
            label,
            is_number: false,
            key: None,
        }
    }

    #[must_use]
    pub const fn number(label: &'static str) -> Self {
        Self {
            is_number: true,
            ..Self::text(label)
        }
    }

    #[must_use]
    pub const fn sorted(self, key: &'static str) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }
}

/// The heading of a column.
#[derive(Debug, PartialEq, Eq)]
pub struct Heading {
    pub label: &'static str,
    pub is_number: bool,
    /// The value of `aria-sort`, if the rows are sorted by this column.
    pub direction: Option<&'static str>,
    /// The address of the list sorted by it; in the opposite order, if it is sorted by it already.
    pub href: Option<String>,
}

impl Heading {
    /// The headings of columns, in the usual order unless the filters name another one.
    #[must_use]
    pub fn all(columns: &[Column], filters: &Filters, usual: &str) -> Vec<Self> {
        let sort = match &*filters.sort {
            "" => usual,
            named => named,
        };
        let columns = columns.iter();
        let headings = columns.map(|column| {
            let ascending = column.key == Some(sort);
            let descending = column.key.is_some() && column.key == sort.strip_prefix('-');
            let minus = if ascending { "-" } else { "" };
            let href = column
                .key
                .map(|key| filters.sorted_by(&format!("{minus}{key}")));
            Self {
                label: column.label,
                is_number: column.is_number,
                direction: match (ascending, descending) {
                    (true, _) => Some("ascending"),
                    (_, true) => Some("descending"),
                    _ => None,
                },
                href,
            }
        });
        headings.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_keeps_the_filters_and_turns_the_order_around() {
        let columns = [Column::text("Name"), Column::text("Ended").sorted("ended")];
        let of = |sort: &str| {
            let pairs = [
                ("owner", ""),
                ("name", "a b"),
                ("sort", sort),
                ("cursor", "1.2"),
            ];
            let filters = Filters::new(&pairs.map(|(name, it)| (name.into(), it.into())));
            assert_eq!((filters.get("name"), filters.get("owner")), ("a b", ""));
            let [name, ended] = Heading::all(&columns, &filters, "-ended")
                .try_into()
                .expect("two");
            assert_eq!((name.direction, name.href), (None, None));
            (ended.direction, ended.href)
        };
        let link = |sort: &str| Some(format!("?name=a%20b&sort={sort}"));
        assert_eq!(of(""), (Some("descending"), link("ended")));
        assert_eq!(of("-ended"), (Some("descending"), link("ended")));
        assert_eq!(of("ended"), (Some("ascending"), link("-ended")));
        assert_eq!(of("other"), (None, link("ended")));
    }
}
