//! User name and password (RFC 1929).

use std::fmt;

use super::grammar::{FieldLength, LOGIN_VERSION, ProtocolError, check_version, put_field, split_field};

const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;

/// A user name and a password, bytes of no set encoding.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user name.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
}

impl fmt::Debug for Login {
    /// Leaves the password out, for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = String::from_utf8_lossy(&self.user);
        f.debug_struct("Login").field("user", &user).finish_non_exhaustive()
    }
}

impl Login {
    /// Returns the message.
    pub fn encode(&self) -> Result<Vec<u8>, FieldLength> {
        let mut message = vec![LOGIN_VERSION];
        put_field(&self.user, &mut message)?;
        put_field(&self.password, &mut message)?;
        Ok(message)
    }
}

/// Parses a client's user name and password. Returns them and the message's length in bytes;
/// `None`: need more, in all at most 513 bytes. RFC 1929 section 2 has no empty fields; such a
/// client is let through to the check of its password, which gives it the answer it understands.
pub fn parse_login(bytes: &[u8]) -> Result<Option<(Login, usize)>, ProtocolError> {
    check_version(bytes, LOGIN_VERSION)?;
    let fields = bytes.get(1..).and_then(|rest| {
        let (user, rest) = split_field(rest)?;
        let (password, _) = split_field(rest)?;
        Some((user, password))
    });
    Ok(fields.map(|(user, password)| {
        let login = Login {
            user: user.to_vec(),
            password: password.to_vec(),
        };
        (login, 3 + user.len() + password.len())
    }))
}

/// Returns the server's answer to a [`Login`]. After a failure the connection MUST be closed (RFC
/// 1929 section 2).
pub fn encode_login_status(success: bool) -> [u8; 2] {
    [LOGIN_VERSION, if success { SUCCESS } else { FAILURE }]
}
