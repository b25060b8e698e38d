//! Compresses the OpenAPI document, which would be 3 % of the shipped binary.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

const DOCUMENT: &str = "../../docs/openapi.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DOCUMENT}");
    let document = fs::read(DOCUMENT).map_err(|error| format!("read {DOCUMENT}: {error}"))?;
    let path = Path::new(&std::env::var("OUT_DIR")?).join("openapi.json.gz");
    let mut file = GzEncoder::new(File::create(path)?, Compression::best());
    file.write_all(&document)?;
    file.finish()?;
    Ok(())
}
