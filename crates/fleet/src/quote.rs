//! Text as one word of a POSIX shell.

/// The text as one word: the shell expands nothing in it.
pub(crate) fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_the_same_text() {
        for text in [
            "",
            "plain-1.5_x/y:z=1,@%+",
            "two words",
            "$HOME `id` $(id) \"quoted\" 'single' \\ ; & | < > * ? [a] {b,c} ~ # !",
            "'",
            "''a'",
            "line\nline\n",
            "ä\t…",
            "-n",
        ] {
            let script = format!("printf %s {}", quote(text));
            let output = Command::new("sh").args(["-c", &script]).output();
            let output = output.expect("a shell").stdout;
            assert_eq!(String::from_utf8_lossy(&output), text);
        }
    }
}
