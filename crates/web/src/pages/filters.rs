//! Filters, orders and columns of lists, as their addresses have them.

use crate::text::encoded;

/// Parameters of an address that filter nothing.
const OTHERS: [&str; 5] = ["cursor", "limit", "reasons", "sort", HIDE];

/// The parameter of a column that is not shown: by its label. It belongs to pages alone.
pub const HIDE: &str = "hide";

/// The filters of a list, its order, and the columns that the reader does not want.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Names and values, none of them empty.
    pairs: Vec<(String, String)>,
    /// The key of the order, with a minus if it is descending; empty for the usual one.
    pub sort: String,
    hidden: Vec<String>,
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
            hidden: parameters
                .iter()
                .filter(|(name, value)| name == HIDE && !value.is_empty())
                .map(|(_, label)| label.clone())
                .collect(),
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

    /// Whether the reader does not want a column.
    #[must_use]
    pub fn hides(&self, label: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == label)
    }

    /// Classes that hide columns of a table whose first columns have no heading.
    pub(super) fn classes(&self, headings: &[Heading], first: usize) -> String {
        let columns = headings.iter().enumerate();
        let hidden = columns.filter(|(at, heading)| *at > 0 && self.hides(heading.label));
        let classes = hidden.map(|(at, _)| format!("hide-{}", at + 1 + first));
        classes.collect::<Vec<_>>().join(" ")
    }

    /// The address of another page of the list, with the same columns.
    pub(super) fn with_columns(&self, mut address: String) -> String {
        for label in &self.hidden {
            address.push(if address.contains('?') { '&' } else { '?' });
            address.push_str(&format!("{HIDE}={}", encoded(label)));
        }
        address
    }

    /// The address of the first page in another order, with the same filters and columns.
    fn sorted_by(&self, sort: &str) -> String {
        let mut query = String::from("?");
        for (name, value) in &self.pairs {
            query.push_str(&format!("{}={}&", encoded(name), encoded(value)));
        }
        query.push_str(&format!("sort={sort}"));
        self.with_columns(query)
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
    fn hidden_columns_stay_hidden_on_other_pages() {
        let pairs = [("hide", "Owner"), ("hide", "Id"), ("name", "x")];
        let filters = Filters::new(&pairs.map(|(name, it)| (name.into(), it.into())));
        assert!(filters.hides("Owner") && !filters.hides("Name"));
        assert!(Filters::new(&[("hide".into(), "Owner".into())]).is_empty());
        let columns = [Column::text("Id").sorted("id"), Column::text("Owner")];
        let headings = Heading::all(&columns, &filters, "id");
        // The first column leads to the rows, and stays.
        assert_eq!(filters.classes(&headings, 1), "hide-3");
        assert_eq!(
            filters.with_columns("/runs/?cursor=3".into()),
            "/runs/?cursor=3&hide=Owner&hide=Id"
        );
        assert_eq!(
            headings[0].href.as_deref(),
            Some("?name=x&sort=-id&hide=Owner&hide=Id")
        );
    }

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
