//! TCP options as RFC 8803 sections 6.2.5, 6.2.6 and 7 treat them.

use super::header::{MessageError, TooLong};

/// The kinds of TCP options that RFC 8803 section 7 speaks of.
pub mod option_kind {
    pub const END: u8 = 0; // section 7.1, as the next two
    pub const NOP: u8 = 1;
    pub const MSS: u8 = 2;
    pub const WINDOW_SCALE: u8 = 3; // section 7.2
    pub const SACK_PERMITTED: u8 = 4; // section 7.3
    pub const SACK: u8 = 5; // section 7.3
    pub const TIMESTAMPS: u8 = 8; // section 7.4
    pub const TCP_AO: u8 = 29; // section 7.7
    pub const MPTCP: u8 = 30; // section 7.5
}

/// The kinds that a converter on a host's own stack can advertise and take in a Connect TLV.
/// Fast Open is not among them: a socket cannot be told which cookie to send, nor to ask for one
/// and send no data (section 7.6 makes it optional).
pub const SUPPORTED_TCP_EXTENSIONS: [u8; 3] =
    [option_kind::SACK_PERMITTED, option_kind::TIMESTAMPS, option_kind::MPTCP];

/// What a converter MUST ignore in a Connect TLV (RFC 8803 sections 7.1 to 7.3).
pub(super) const IGNORED: [u8; 5] = [
    option_kind::END,
    option_kind::NOP,
    option_kind::MSS,
    option_kind::WINDOW_SCALE,
    option_kind::SACK,
];

/// Whether a converter may never announce this kind (RFC 8803 sections 7.1 to 7.3 and 7.7).
pub(super) fn never_announced(kind: u8) -> bool {
    IGNORED.contains(&kind) || kind == option_kind::TCP_AO
}

/// A TCP option with a length byte, that is, of any kind but 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpOption {
    pub kind: u8,
    /// What is behind kind and length; empty: no value.
    pub value: Vec<u8>,
}

impl TcpOption {
    pub fn empty(kind: u8) -> Self {
        Self {
            kind,
            value: Vec::new(),
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let length = u8::try_from(self.value.len() + 2).map_err(|_| TooLong)?;
        out.extend([self.kind, length]);
        out.extend(&self.value);
        Ok(())
    }
}

/// Parses the TCP Options field of a Connect TLV. Kinds 0 and 1 have no length; each is one byte
/// that is skipped (RFC 8803 section 7.1: MUST ignore), so that no option behind them is lost.
pub(super) fn connect_options(mut bytes: &[u8]) -> Result<Vec<TcpOption>, MessageError> {
    let mut options = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        bytes = if kind == option_kind::END || kind == option_kind::NOP {
            rest
        } else {
            let (option, rest) = split_option(kind, rest)?;
            options.push(option);
            rest
        };
    }
    Ok(options)
}

/// Takes an option, whose `kind` is off already, off a list.
fn split_option(kind: u8, bytes: &[u8]) -> Result<(TcpOption, &[u8]), MessageError> {
    // RFC 8803 section 6.2.5: the length counts itself and the kind; the minimum is 2.
    let value = bytes.first().and_then(|&length| {
        let end = usize::from(length).checked_sub(2)? + 1;
        Some((bytes.get(1..end)?.to_vec(), &bytes[end..]))
    });
    let (value, rest) = value.ok_or(MessageError::TcpOptionLength(kind))?;
    Ok((TcpOption { kind, value }, rest))
}
