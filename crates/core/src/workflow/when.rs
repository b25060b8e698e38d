//! Expressions of `when`: `params.day != '' and tasks.extract.outputs.rows > 0`.
//!
//! ```text
//!   or      = and { "or" and }
//!   and     = not { "and" not }
//!   not     = "not" not | compare
//!   compare = "(" or ")" | value [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" ) value ]
//!   value   = 'text' | "text" | number | true | false | null | reference
//! ```
//!
//! Parameters are text; beside a number, text that is a number counts as one. Two texts are
//! compared as texts.
//!
//! An expression is as deep as its brackets, however long it is: recursion over it is safe.

use std::borrow::Cow;
use std::cmp::Ordering;

use baton_model::limits::WHEN_BYTES_MAX;
use serde_json::Value;

use super::template::Reference;

/// Nesting limit, well beyond what is readable.
const DEPTH_MAX: usize = 64;

/// An expression of `when`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WhenExpr {
    Or(Vec<WhenExpr>),
    And(Vec<WhenExpr>),
    Not(Box<WhenExpr>),
    Compare(Operator, Operand, Operand),
    /// A single value: true unless it is false, null, zero, or empty.
    Is(Operand),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `in`: an element of a list, or a substring.
    In,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    Literal(Value),
    Reference(Reference),
}

impl WhenExpr {
    /// Parses an expression.
    ///
    /// # Errors
    /// The first syntax error.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > WHEN_BYTES_MAX {
            return Err(format!("it is longer than {WHEN_BYTES_MAX} bytes"));
        }
        let mut parser = Parser {
            tokens: tokenize(text)?,
            at: 0,
            depth: 0,
        };
        let when = parser.or()?;
        match parser.peek() {
            None => Ok(when),
            Some(token) => Err(format!("unexpected {token} after the end of the condition")),
        }
    }

    /// All references in it.
    #[must_use]
    pub fn references(&self) -> Vec<&Reference> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Reference>) {
        let mut operand = |operand: &'a Operand| {
            if let Operand::Reference(reference) = operand {
                found.push(reference);
            }
        };
        match self {
            Self::Compare(_, left, right) => {
                operand(left);
                operand(right);
            }
            Self::Is(value) => operand(value),
            Self::Not(inner) => inner.collect(found),
            Self::Or(parts) | Self::And(parts) => {
                parts.iter().for_each(|part| part.collect(found));
            }
        }
    }

    /// Evaluates it.
    ///
    /// # Errors
    /// If a reference has no value, or values cannot be compared.
    pub fn holds<'a>(
        &'a self,
        value: &mut impl FnMut(&'a Reference) -> Result<Cow<'a, Value>, String>,
    ) -> Result<bool, String> {
        Ok(match self {
            Self::Or(parts) => {
                for part in parts {
                    if part.holds(value)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::And(parts) => {
                for part in parts {
                    if !part.holds(value)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Not(inner) => !inner.holds(value)?,
            Self::Is(operand) => is_truthy(operand.value(value)?.as_ref()),
            Self::Compare(operator, left, right) => {
                let (left, right) = (left.value(value)?, right.value(value)?);
                compare(*operator, &left, &right)?
            }
        })
    }
}

impl Operand {
    fn value<'a>(
        &'a self,
        value: &mut impl FnMut(&'a Reference) -> Result<Cow<'a, Value>, String>,
    ) -> Result<Cow<'a, Value>, String> {
        match self {
            Self::Literal(literal) => Ok(Cow::Borrowed(literal)),
            Self::Reference(reference) => value(reference),
        }
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

fn compare(operator: Operator, left: &Value, right: &Value) -> Result<bool, String> {
    let order = || {
        let numbers = number(left).zip(number(right));
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            _ => numbers.and_then(|(left, right)| left.partial_cmp(&right)),
        };
        order.ok_or_else(|| format!("{left} and {right} cannot be ordered"))
    };
    Ok(match operator {
        Operator::Equal => same(left, right),
        Operator::Unequal => !same(left, right),
        Operator::Less => order()? == Ordering::Less,
        Operator::AtMost => order()? != Ordering::Greater,
        Operator::Greater => order()? == Ordering::Greater,
        Operator::AtLeast => order()? != Ordering::Less,
        Operator::In => match right {
            Value::Array(list) => is_in(left, list),
            Value::String(text) => match left {
                Value::String(part) => text.contains(part.as_str()),
                _ => return Err(format!("{left} is not a text and cannot be `in` a text")),
            },
            _ => {
                return Err(format!(
                    "{right} is neither a list nor a text, as `in` requires"
                ));
            }
        },
    })
}

/// Compares numbers as `f64` once: lists may be long, and `in` is evaluated for each of many items.
fn is_in(value: &Value, list: &[Value]) -> bool {
    let Value::Number(of) = value else {
        return list.iter().any(|element| same(value, element));
    };
    let wanted = of.as_f64();
    list.iter().any(|element| match element {
        Value::Number(number) => wanted.is_some() && number.as_f64() == wanted,
        other => same(value, other),
    })
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_) | Value::String(_))
        | (Value::String(_), Value::Number(_)) => {
            number(left).is_some() && number(left) == number(right)
        }
        (Value::Bool(truth), Value::String(text)) | (Value::String(text), Value::Bool(truth)) => {
            text == if *truth { "true" } else { "false" }
        }
        _ => left == right,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Number(Value),
    Sign(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

const SIGNS: &[&str] = &["==", "!=", "<=", ">=", "<", ">", "(", ")"];

fn tokenize(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, beyond) = if let Some(sign) = SIGNS.iter().find(|it| rest.starts_with(**it)) {
            (Token::Sign(sign), &rest[sign.len()..])
        } else if first == '\'' || first == '"' {
            let inside = &rest[1..];
            let end = inside.find(first);
            let end = end.ok_or_else(|| format!("unterminated text {rest}"))?;
            (Token::Text(inside[..end].to_owned()), &inside[end + 1..])
        } else {
            let is_part = |c: char| c.is_alphanumeric() || "_.-+".contains(c);
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(format!("unexpected character `{first}`"));
            }
            let word = &rest[..end];
            let number = word
                .starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
                .then(|| serde_json::from_str::<Value>(word.trim_start_matches('+')));
            let token = match number {
                Some(Ok(number)) => Token::Number(number),
                Some(Err(_)) => return Err(format!("`{word}` is not a number")),
                None => Token::Word(word.to_owned()),
            };
            (token, &rest[end..])
        };
        tokens.push(token);
        rest = beyond.trim_start();
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn accept(&mut self, wanted: &Token) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    fn accept_word(&mut self, word: &str) -> bool {
        self.accept(&Token::Word(word.to_owned()))
    }

    fn or(&mut self) -> Result<WhenExpr, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} levels deep"));
        }
        let first = self.and()?;
        let mut parts = vec![first];
        while self.accept_word("or") {
            parts.push(self.and()?);
        }
        self.depth -= 1;
        Ok(single(parts).unwrap_or_else(WhenExpr::Or))
    }

    fn and(&mut self) -> Result<WhenExpr, String> {
        let first = self.not()?;
        let mut parts = vec![first];
        while self.accept_word("and") {
            parts.push(self.not()?);
        }
        Ok(single(parts).unwrap_or_else(WhenExpr::And))
    }

    fn not(&mut self) -> Result<WhenExpr, String> {
        let mut negated = false;
        while self.accept_word("not") {
            negated = !negated;
        }
        let inner = self.compare()?;
        Ok(if negated {
            WhenExpr::Not(Box::new(inner))
        } else {
            inner
        })
    }

    fn compare(&mut self) -> Result<WhenExpr, String> {
        if self.accept(&Token::Sign("(")) {
            let inner = self.or()?;
            return if self.accept(&Token::Sign(")")) {
                Ok(inner)
            } else {
                Err("a `(` is not closed".to_owned())
            };
        }
        let left = self.operand()?;
        let operator = match self.peek() {
            Some(Token::Sign("==")) => Operator::Equal,
            Some(Token::Sign("!=")) => Operator::Unequal,
            Some(Token::Sign("<")) => Operator::Less,
            Some(Token::Sign("<=")) => Operator::AtMost,
            Some(Token::Sign(">")) => Operator::Greater,
            Some(Token::Sign(">=")) => Operator::AtLeast,
            Some(Token::Word(word)) if word == "in" => Operator::In,
            _ => return Ok(WhenExpr::Is(left)),
        };
        self.at += 1;
        Ok(WhenExpr::Compare(operator, left, self.operand()?))
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let token = self.peek().cloned();
        let token = token.ok_or_else(|| "the condition ends too early".to_owned())?;
        self.at += 1;
        Ok(match token {
            Token::Text(text) => Operand::Literal(Value::String(text)),
            Token::Number(number) => Operand::Literal(number),
            Token::Word(word) => match word.as_str() {
                "true" => Operand::Literal(Value::Bool(true)),
                "false" => Operand::Literal(Value::Bool(false)),
                "null" => Operand::Literal(Value::Null),
                word => Operand::Reference(Reference::parse(word)?),
            },
            sign @ Token::Sign(_) => return Err(format!("expected a value instead of {sign}")),
        })
    }
}

/// The single part, or all of them.
fn single(mut parts: Vec<WhenExpr>) -> Result<WhenExpr, Vec<WhenExpr>> {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => Ok(only),
        (_, last) => {
            parts.extend(last);
            Err(parts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> Result<bool, String> {
        WhenExpr::parse(text)?.holds(&mut |reference| {
            let value = match reference {
                Reference::Item => Value::from("eu"),
                Reference::ItemKey(_) => Value::from(7),
                Reference::Param(name) if name == "day" => Value::from("12"),
                Reference::Output { key, .. } if key == "list" => Value::from(vec!["a", "eu"]),
                Reference::Output { key, .. } if key == "numbers" => {
                    serde_json::json!([7.0, "9", null])
                }
                other => return Err(format!("`{other}` has no value")),
            };
            Ok(Cow::Owned(value))
        })
    }

    /// A leader whose stack it overflowed would die again whenever it took over.
    #[test]
    fn a_long_condition_is_no_deeper_than_a_short_one() {
        let long = |word: &str| format!("true{}", format!(" {word} true").repeat(400));
        for text in [long("or"), long("and")] {
            let parts = match WhenExpr::parse(&text).expect("a condition") {
                WhenExpr::Or(parts) | WhenExpr::And(parts) => parts,
                other => panic!("{other:?}"),
            };
            assert_eq!(parts.len(), 401);
            assert!(parts.iter().all(|part| matches!(part, WhenExpr::Is(_))));
            assert_eq!(holds(&text), Ok(true));
        }
        let error = WhenExpr::parse(&long("or").repeat(20)).expect_err("it is too long");
        assert!(error.contains("longer than"), "{error}");
    }

    #[test]
    fn conditions_hold_or_do_not() {
        for (text, expected) in [
            ("true", true),
            ("not true", false),
            ("not not true", true),
            ("item == 'eu'", true),
            ("item == \"us\"", false),
            ("item != 'us' and params.day > 3", true),
            ("params.day == 12", true),
            ("params.day < 9", false),
            ("false or item.n >= 7", true),
            ("false and tasks.x.outputs.unknown", false),
            ("item in tasks.x.outputs.list", true),
            ("7 in tasks.x.outputs.numbers", true),
            ("'7' in tasks.x.outputs.numbers", true),
            ("9 in tasks.x.outputs.numbers", true),
            ("8 in tasks.x.outputs.numbers", false),
            ("'u' in item", true),
            ("(item == 'us' or true) and not (1 > 2)", true),
            ("-1 < 0", true),
            ("''", false),
            ("0", false),
            ("null", false),
        ] {
            assert_eq!(holds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_or_answered_is_said() {
        for text in [
            "",
            "item ==",
            "(item",
            "item item",
            "1 2",
            "'open",
            "item == ?",
            "what",
            "== 1",
            "1x",
            "item and",
            "not",
        ] {
            assert!(WhenExpr::parse(text).is_err(), "{text}");
        }
        assert!(WhenExpr::parse(&"(".repeat(5_000)).is_err());
        for text in ["tasks.x.outputs.y == 1", "item < 3", "1 in 2", "1 in 'a'"] {
            assert!(holds(text).is_err(), "{text}");
        }
    }
}
