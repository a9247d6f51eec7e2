//! Objects for `fetch`, as files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::corpus::{Corpus, Object};
use crate::failure::{Attempt as _, Failure};

/// Writes them below a folder, which any server may have as its root.
#[derive(Args, Debug)]
pub struct Options {
    /// The server's root.
    #[arg(long, value_name = "FOLDER")]
    below: PathBuf,
    #[command(flatten)]
    corpus: Corpus,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let Options { below, corpus } = options;
    for folder in &corpus.folders {
        let place = below.join(folder);
        fs::create_dir_all(&place).attempt(place.display())?;
        for number in 0..corpus.objects {
            let object = corpus.object(folder, number);
            write(below, &object).attempt(object.path())?;
        }
    }
    Ok(())
}

fn write(below: &Path, object: &Object<'_>) -> io::Result<()> {
    let path = below.join(&object.path()[1..]);
    let mut file = io::BufWriter::new(fs::File::create(path)?);
    let mut written = 0;
    while written < object.length {
        let piece = object.pattern().at(written, object.length - written);
        file.write_all(piece)?;
        written += piece.len() as u64;
    }
    file.flush()
}
