//! What a converter answers when it does as it was asked.

use super::message::encode;
use super::option::never_announced;
use super::tlv::Tlv;

/// The most bytes of options that a TCP header can have.
const MAX_TCP_OPTIONS: usize = 40;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The TCP options of the server's SYN+ACK, padded with zeros to words (RFC 8803 section
    /// 6.2.6).
    pub extended_tcp_header: Option<Vec<u8>>,
    /// The kinds of TCP options that the converter supports (section 6.2.4).
    pub supported_tcp_extensions: Option<Vec<u8>>,
}

impl Reply {
    /// Returns the whole message; the server's data follow it. At most 40 bytes of TCP options
    /// are taken (no header has more), and kinds that must not be announced (sections 7.1 to 7.3
    /// and 7.7) are left out, as are repeated ones.
    ///
    /// # Panics
    /// Never: 40 bytes and 256 kinds fit into a message.
    pub fn encode(&self) -> Vec<u8> {
        let header = self
            .extended_tcp_header
            .as_ref()
            .map(|options| Tlv::ExtendedTcpHeader(options[..options.len().min(MAX_TCP_OPTIONS)].to_vec()));
        let kinds = self.supported_tcp_extensions.as_ref();
        let supported = kinds.map(|kinds| Tlv::SupportedTcpExtensions(announced(kinds)));
        let tlvs: Vec<Tlv> = header.into_iter().chain(supported).collect();
        encode(&tlvs).expect("an Extended TCP Header and 256 kinds fit into a message")
    }
}

fn announced(kinds: &[u8]) -> Vec<u8> {
    let mut list = Vec::new();
    for &kind in kinds {
        if !never_announced(kind) && !list.contains(&kind) {
            list.push(kind);
        }
    }
    list
}
