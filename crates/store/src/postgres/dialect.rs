//! PostgreSQL's spelling of the statements of this crate.

/// Translates a statement: numbered parameters, the larger or smaller of two values, and hints that
/// only SQLite knows.
pub(super) fn translate(sql: &str) -> String {
    let mut translated = String::with_capacity(sql.len() + 16);
    let mut rest = sql;
    while let Some(next) = rest.chars().next() {
        if next == '\'' {
            // A text in quotes stays as it is.
            let end = rest[1..].find('\'').map_or(rest.len(), |at| at + 2);
            translated.push_str(&rest[..end]);
            rest = &rest[end..];
        } else if let Some(hint) = rest.strip_prefix(" INDEXED BY ") {
            rest = hint.trim_start_matches(|it: char| it.is_ascii_alphanumeric() || it == '_');
        } else if let Some(function) = two_values(&translated, rest) {
            translated.push_str(function);
            rest = &rest[3..];
        } else {
            translated.push(if next == '?' { '$' } else { next });
            rest = &rest[next.len_utf8()..];
        }
    }
    translated
}

/// The name of `max` or `min` at the beginning of `rest`, if it is called with two values: with one it
/// is an aggregate.
fn two_values(before: &str, rest: &str) -> Option<&'static str> {
    let name = match rest.get(..4)? {
        "max(" => "greatest",
        "min(" => "least",
        _ => return None,
    };
    let in_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    if before.ends_with(in_word) {
        return None;
    }
    let mut depth = 0;
    for next in rest[3..].chars() {
        match next {
            '(' => depth += 1,
            ')' if depth == 1 => return None,
            ')' => depth -= 1,
            ',' if depth == 1 => return Some(name),
            _ => {}
        }
    }
    None
}

/// A statement that writes many rows at once, one array for each parameter, made of a translated one
/// that writes a row; `None` if it does more than that.
///
/// The arrays are unnested in the list of a `SELECT`, where rows pass one by one: as functions in `FROM`, each
/// of them would be stored first.
pub(super) fn batched(sql: &str, types: &[&str]) -> Option<String> {
    let array = |(at, kind): (usize, &&str)| format!("unnest(${}::{kind}[])", at + 1);
    let arrays: Vec<_> = types.iter().enumerate().map(array).collect();
    if sql.starts_with("INSERT INTO ") {
        return batched_insert(sql, &arrays);
    }
    let (head, condition) = sql.split_once(" WHERE ")?;
    let join = match head.split(' ').next()? {
        "UPDATE" => "FROM",
        "DELETE" => "USING",
        _ => return None,
    };
    if sql.contains("SELECT ") {
        return None;
    }
    let columns = arrays.iter().enumerate();
    let columns: Vec<_> = columns
        .map(|(at, array)| format!("{array} AS v{}", at + 1))
        .collect();
    let columns = columns.join(", ");
    let [head, condition] = [head, condition].map(|it| it.replace('$', "batch.v"));
    Some(format!(
        "{head} {join} (SELECT {columns}) AS batch WHERE {condition}"
    ))
}

fn batched_insert(sql: &str, arrays: &[String]) -> Option<String> {
    let (head, rest) = sql.split_once(" VALUES (")?;
    let (values, tail) = rest.split_once(')')?;
    let is_plain = |(at, value): (usize, &str)| value.trim() == format!("${}", at + 1);
    let plain = values.split(',').count() == arrays.len()
        && values.split(',').enumerate().all(is_plain)
        && !tail.contains('$');
    plain.then(|| format!("{head} SELECT {}{tail}", arrays.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_hints_and_functions_of_two_values_are_translated() {
        let sql = "SELECT max(id), max(first, ?1), min(a + max(b), ?12) FROM run INDEXED BY run_by_end \
                   WHERE x = 'max(a, b) ?1' AND climax(a, b)";
        let wanted = "SELECT max(id), greatest(first, $1), least(a + max(b), $12) FROM run \
                      WHERE x = 'max(a, b) ?1' AND climax(a, b)";
        assert_eq!(translate(sql), wanted);
    }

    #[test]
    fn simple_writes_are_batched_and_others_are_not() {
        let sql =
            "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = excluded.b";
        let wanted = "INSERT INTO t (a, b) SELECT unnest($1::bigint[]), unnest($2::text[]) \
                      ON CONFLICT (a) DO UPDATE SET b = excluded.b";
        assert_eq!(batched(sql, &["bigint", "text"]).as_deref(), Some(wanted));
        let sql = "UPDATE t SET a = a + $2 WHERE b = $1";
        let wanted = "UPDATE t SET a = a + batch.v2 FROM (SELECT unnest($1::bigint[]) AS v1, \
                      unnest($2::bigint[]) AS v2) AS batch WHERE b = batch.v1";
        assert_eq!(batched(sql, &["bigint", "bigint"]).as_deref(), Some(wanted));
        let wanted =
            "DELETE FROM t USING (SELECT unnest($1::text[]) AS v1) AS batch WHERE a = batch.v1";
        let sql = "DELETE FROM t WHERE a = $1";
        assert_eq!(batched(sql, &["text"]).as_deref(), Some(wanted));
        for sql in [
            "INSERT INTO t (a, b) VALUES ($2, $1)",
            "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = $2",
            "INSERT INTO t (a, b) VALUES ((SELECT 1), $1)",
            "DELETE FROM t WHERE a <= (SELECT max(a) FROM t) - $1",
            "SELECT pg_notify($1, $2)",
            "UPDATE t SET a = $1, b = $2",
        ] {
            assert_eq!(batched(sql, &["bigint", "text"]), None, "{sql}");
        }
    }
}
