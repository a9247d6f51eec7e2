//! The encoding of etcd's values: JSON, `{"format": 1, "value": ...}`. Another format is refused.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The format that this program writes, and the only one that it reads.
const FORMAT: u32 = 1;
/// The largest value. etcd takes requests of 1.5 MiB, including the key and what a transaction compares, unless its operator
/// sets another limit (`--max-request-bytes`).
const MAX_VALUE_BYTES: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    format: u32,
    value: T,
}

/// Encodes a value for etcd.
///
/// # Panics
/// If a map in it has keys that are not text; no value of the schema has one.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(&Envelope { format: FORMAT, value }).expect("keys are text")
}

/// Encodes a value, or says why etcd would refuse it.
pub fn encode_bounded(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let bytes = encode(value);
    let length = bytes.len();
    if length > MAX_VALUE_BYTES {
        return Err(format!("{length} bytes: accepted: at most {MAX_VALUE_BYTES}"));
    }
    Ok(bytes)
}

pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let envelope: Envelope<serde_json::Value> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if envelope.format != FORMAT {
        return Err(format!(
            "format {}: accepted: {FORMAT}; another version of this program wrote it",
            envelope.format
        ));
    }
    serde_json::from_value(envelope.value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_etcd_would_refuse_is_refused() {
        assert!(encode_bounded(&"x".repeat(MAX_VALUE_BYTES / 2)).is_ok());
        let refusal = encode_bounded(&"x".repeat(MAX_VALUE_BYTES)).unwrap_err();
        assert!(refusal.ends_with(" bytes: accepted: at most 1048576"), "{refusal}");
    }
}
