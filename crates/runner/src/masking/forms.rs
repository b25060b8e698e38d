//! The forms in which a secret is looked for.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A shorter value is not masked: it would be found in words that have nothing to do with it.
const VALUE_BYTES_MIN: usize = 4;
/// A shorter line of a value of several lines is not masked: it may be a brace.
const LINE_BYTES_MIN: usize = 8;
/// Fewer characters of base64 are not masked.
const BASE64_CHARS_MIN: usize = 8;
/// Of a longer value, base64 is found only if it begins with it.
const SHIFTED_BYTES_MAX: usize = 4 << 10;
/// The lengths of lines into which programs break base64: `base64` and MIME, PEM.
const BASE64_LINES: [usize; 2] = [76, 64];

/// What is looked for to find a value.
#[must_use]
pub fn forms(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::new();
    let trimmed = value.trim_ascii_end();
    if trimmed.len() < VALUE_BYTES_MIN {
        return forms;
    }
    if trimmed.contains(&b'\n') {
        let lines = trimmed.split(|byte| *byte == b'\n');
        let lines = lines.map(<[u8]>::trim_ascii);
        let long = lines.filter(|line| line.len() >= LINE_BYTES_MIN);
        for line in long {
            plain(line, &mut forms);
        }
    } else {
        plain(trimmed, &mut forms);
    }
    base64(trimmed, &mut forms);
    forms
}

/// The bytes themselves, and as a JSON string has them.
fn plain(bytes: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    forms.insert(bytes.to_vec());
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(quoted) = serde_json::to_string(text)
    {
        forms.insert(quoted.as_bytes()[1..quoted.len() - 1].to_vec());
    }
}

/// The characters of base64 that depend on the value alone, wherever in the encoded bytes it begins.
fn base64(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    let shifts = if value.len() <= SHIFTED_BYTES_MAX {
        0..3
    } else {
        0..1
    };
    for shift in shifts {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(value);
        // Each character has six bits; those that share some with what comes before or after are left out.
        let (from, to) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
        for encoded in [
            STANDARD_NO_PAD.encode(&bytes),
            URL_SAFE_NO_PAD.encode(&bytes),
        ] {
            let whole = &encoded.as_bytes()[from..to];
            if whole.len() >= BASE64_CHARS_MIN {
                forms.insert(whole.to_vec());
            }
            let widths = BASE64_LINES
                .into_iter()
                .filter(|it| shift == 0 && *it < whole.len());
            for line in widths.flat_map(|width| whole.chunks(width)) {
                if line.len() >= BASE64_CHARS_MIN {
                    forms.insert(line.to_vec());
                }
            }
        }
    }
}
