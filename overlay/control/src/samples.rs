//! Values that the tests of several modules are made of.

use crate::name::Name;
use crate::schema::Chain;

/// The name `text`; panics unless it is one.
pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A chain for so many rounds through these nodes.
pub fn chain(rounds: u8, through: &[&str]) -> Chain {
    Chain {
        rounds,
        through: through.iter().map(|each| name(each)).collect(),
    }
}
