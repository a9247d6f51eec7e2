//! The choice of a method (RFC 1928 section 3).

use super::{Fault, FieldLength, VERSION, check_version, put_field, split_field};

/// How a client shows who it is (RFC 1928 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// 0: not at all.
    NoAuthentication,
    /// 2: with user name and password (RFC 1929).
    UserPassword,
    /// 255: none of the client's methods is acceptable.
    NoneAcceptable,
    /// Another one.
    Other(u8),
}

impl From<u8> for Method {
    fn from(byte: u8) -> Self {
        match byte {
            0 => Self::NoAuthentication,
            2 => Self::UserPassword,
            255 => Self::NoneAcceptable,
            other => Self::Other(other),
        }
    }
}

impl From<Method> for u8 {
    fn from(method: Method) -> Self {
        match method {
            Method::NoAuthentication => 0,
            Method::UserPassword => 2,
            Method::NoneAcceptable => 255,
            Method::Other(other) => other,
        }
    }
}

impl Method {
    /// Returns the server's answer to a greeting. After [`Method::NoneAcceptable`] the connection
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
    pub fn offers(&self, method: Method) -> bool {
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
pub fn parse_greeting(bytes: &[u8]) -> Result<Option<(Greeting, usize)>, Fault> {
    check_version(bytes, VERSION)?;
    let methods = bytes
        .get(1..)
        .and_then(split_field)
        .map(|(methods, _)| methods);
    Ok(methods.map(|methods| {
        let greeting = Greeting {
            methods: methods.to_vec(),
        };
        (greeting, 2 + methods.len())
    }))
}

/// Parses a server's choice of a method. Returns it and its length in bytes; `None`: need more.
pub fn parse_method(bytes: &[u8]) -> Result<Option<(Method, usize)>, Fault> {
    check_version(bytes, VERSION)?;
    Ok(bytes.get(1).map(|&method| (method.into(), 2)))
}
