//! The choice of a method (RFC 1928 section 3).

use super::grammar::{FieldLength, ProtocolError, VERSION, check_version, put_field, split_field};

/// How a client shows who it is (RFC 1928 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// 0: not at all.
    NoAuthentication,
    /// 2: with user name and password (RFC 1929).
    UserPassword,
    /// 255: none of the client's methods is acceptable.
    NoneAcceptable,
    /// Another one.
    Other(u8),
}

impl From<AuthMethod> for u8 {
    fn from(method: AuthMethod) -> Self {
        match method {
            AuthMethod::NoAuthentication => 0,
            AuthMethod::UserPassword => 2,
            AuthMethod::NoneAcceptable => 255,
            AuthMethod::Other(other) => other,
        }
    }
}

impl AuthMethod {
    /// Returns the server's answer to a greeting. After [`AuthMethod::NoneAcceptable`] the connection
    /// is closed.
    pub fn encode(self) -> [u8; 2] {
        [VERSION, self.into()]
    }
}

/// A client's first message: the methods that it can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The methods, by number.
    pub methods: Vec<u8>,
}

impl Greeting {
    /// Whether the client can use this method.
    pub fn offers(&self, method: AuthMethod) -> bool {
        self.methods.contains(&method.into())
    }

    /// Returns the message.
    pub fn encode(&self) -> Result<Vec<u8>, FieldLength> {
        let mut message = vec![VERSION];
        put_field(&self.methods, &mut message)?;
        Ok(message)
    }
}

/// Parses a client's greeting. Returns it and its length in bytes; `None`: need more, in all at
/// most 257 bytes.
pub fn parse_greeting(bytes: &[u8]) -> Result<Option<(Greeting, usize)>, ProtocolError> {
    check_version(bytes, VERSION)?;
    let methods = bytes.get(1..).and_then(split_field).map(|(methods, _)| methods);
    Ok(methods.map(|methods| {
        let greeting = Greeting {
            methods: methods.to_vec(),
        };
        (greeting, 2 + methods.len())
    }))
}
