//! etcd as agents and controllers use it: a session with a lease, which ends when anything goes wrong.

use std::convert::Infallible;
use std::error::Error as _;
use std::fmt::{Display, Formatter};
use std::future::Future;
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, Error, GetOptions, PutOptions, SortOrder,
    SortTarget, Txn, TxnOp, WatchOptions, WatchStream,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::members::Members;
use crate::snapshot::Entry;

/// Seconds that a lease outlives its holder: the least that etcd grants by its default timers.
const LEASE_SECONDS: i64 = 2;
/// So often it is kept alive.
const KEPT_EVERY: Duration = Duration::from_millis(500);
/// etcd answers within this time, or is away.
const TIMEOUT: Duration = Duration::from_secs(2);
/// From the end of a session to the next attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// The same trouble is told again after this time.
const REMINDER: Duration = Duration::from_secs(60);
/// Delays of 1000 nodes are 20 MB.
const LONGEST_ANSWER: usize = 64 << 20;

/// Why a session ended.
#[derive(Debug)]
pub struct Lost(pub String);

impl Display for Lost {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<Error> for Lost {
    fn from(error: Error) -> Self {
        let mut line = match &error {
            Error::GRpcStatus(status) => format!("etcd: {}", status.message()),
            other => format!("etcd: {other}"),
        };
        // "transport error" says nothing: what is below it does.
        let mut cause = error.source();
        while let Some(below) = cause {
            let text = below.to_string();
            if !line.contains(&text) {
                line = format!("{line}: {text}");
            }
            cause = below.source();
        }
        Self(line)
    }
}

/// Begin a session again whenever it ends. Says why it ended, but not the same thing all the time.
pub async fn forever(mut session: impl AsyncFnMut() -> Result<Infallible, Lost>) -> Infallible {
    let mut said: Option<(String, Instant)> = None;
    loop {
        let Err(Lost(why)) = session().await;
        let again = said
            .as_ref()
            .is_some_and(|(before, when)| *before == why && when.elapsed() < REMINDER);
        if !again {
            warn!("{why}; trying again");
            said = Some((why, Instant::now()));
        }
        sleep(PAUSE).await;
    }
}

/// Entries of a prefix, at a revision.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// etcd's revision when it was read.
    pub revision: i64,
    /// In the order of their keys.
    pub entries: Vec<Entry>,
}

/// A connection to etcd, which takes any of its members.
#[derive(Clone)]
pub struct Store(Client);

impl Store {
    /// Of these members; whether one is there shows by the first question.
    pub async fn connect(members: &Members) -> Result<Self, Lost> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(TIMEOUT)
            .with_require_leader(true);
        if let Some(tls) = members.tls() {
            options = options.with_tls(tls.clone());
        }
        Ok(Self(
            Client::connect(members.endpoints(), Some(options)).await?,
        ))
    }

    /// All entries whose keys begin with `prefix`: now, or as they were at `revision`.
    pub async fn list(&self, prefix: &str, revision: Option<i64>) -> Result<Listing, Lost> {
        let options = GetOptions::new()
            .with_prefix()
            .with_revision(revision.unwrap_or(0));
        self.read(prefix, options).await
    }

    /// The names of these keys alone.
    pub async fn list_keys(&self, prefix: &str) -> Result<Listing, Lost> {
        self.read(prefix, GetOptions::new().with_prefix().with_keys_only())
            .await
    }

    /// All entries whose keys begin with `prefix`, those made first in front.
    pub async fn oldest_first(&self, prefix: &str) -> Result<Listing, Lost> {
        let options = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Ascend);
        self.read(prefix, options).await
    }

    /// The value of one key.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Lost> {
        let found = self.read(key, GetOptions::new()).await?;
        Ok(found.entries.into_iter().next().map(|(_, value)| value))
    }

    async fn read(&self, key: &str, options: GetOptions) -> Result<Listing, Lost> {
        let mut client = self.0.kv_client().max_decoding_message_size(LONGEST_ANSWER);
        let mut found = answered(client.get(key, Some(options))).await?;
        let revision = found
            .header()
            .map_or(0, etcd_client::ResponseHeader::revision);
        let entries = found
            .take_kvs()
            .into_iter()
            .map(etcd_client::KeyValue::into_key_value)
            .collect();
        Ok(Listing { revision, entries })
    }

    /// Write one key, which goes with `lease`.
    pub async fn put(&self, key: &str, value: Vec<u8>, lease: &Lease) -> Result<(), Lost> {
        let options = PutOptions::new().with_lease(lease.id);
        answered(self.0.kv_client().put(key, value, Some(options))).await?;
        Ok(())
    }

    /// Write one key, which goes with `lease`, if it is not there; whether it was not.
    pub async fn put_new(&self, key: &str, value: Vec<u8>, lease: &Lease) -> Result<bool, Lost> {
        let options = PutOptions::new().with_lease(lease.id);
        let free = Compare::create_revision(key, CompareOp::Equal, 0);
        let put = TxnOp::put(key, value, Some(options));
        self.transact(free, put).await
    }

    async fn transact(&self, condition: Compare, operation: TxnOp) -> Result<bool, Lost> {
        let transaction = Txn::new().when([condition]).and_then([operation]);
        Ok(answered(self.0.kv_client().txn(transaction))
            .await?
            .succeeded())
    }

    /// Changes of keys that begin with `prefix`, after `revision`.
    pub async fn watch(&self, prefix: &str, revision: i64) -> Result<Changes, Lost> {
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(revision + 1);
        Ok(Changes(
            answered(self.0.watch_client().watch(prefix, Some(options))).await?,
        ))
    }

    /// A new lease, kept alive from now on.
    pub async fn lease(&self) -> Result<Lease, Lost> {
        let id = answered(self.0.lease_client().grant(LEASE_SECONDS, None))
            .await?
            .id();
        let kept = tokio::spawn(keep(self.clone(), id));
        Ok(Lease {
            store: self.clone(),
            id,
            kept,
        })
    }

    /// Be elected, however long that takes. `value` is what others see of us.
    pub async fn campaign(&self, election: &str, value: &str, lease: i64) -> Result<Office, Lost> {
        let mut client = self.0.election_client();
        let elected = client.campaign(election, value, lease).await?;
        let leader = elected
            .leader()
            .ok_or_else(|| Lost("etcd: an election without a winner".into()))?;
        Ok(Office {
            store: self.clone(),
            key: leader.key().to_vec(),
            since: leader.rev(),
        })
    }
}

async fn answered<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Lost> {
    match timeout(TIMEOUT, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Lost(format!(
            "etcd: no answer within {} s",
            TIMEOUT.as_secs()
        ))),
    }
}

/// A stream of changes.
pub struct Changes(WatchStream);

impl Changes {
    /// Wait for a change after `revision`.
    pub async fn after(&mut self, revision: i64) -> Result<(), Lost> {
        loop {
            let told = self
                .0
                .message()
                .await?
                .ok_or_else(|| Lost("etcd: the watch ended".into()))?;
            if told.canceled() {
                return Err(Lost(format!(
                    "etcd: the watch ended: {}",
                    told.cancel_reason()
                )));
            }
            let latest = told
                .events()
                .iter()
                .filter_map(|event| event.kv())
                .map(etcd_client::KeyValue::mod_revision);
            if latest.max().is_some_and(|latest| latest > revision) {
                return Ok(());
            }
        }
    }
}

/// A lease: what is written with it goes when its holder does.
pub struct Lease {
    store: Store,
    id: i64,
    kept: JoinHandle<Lost>,
}

impl Lease {
    /// Its number in etcd.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Wait until it can no longer be kept alive.
    pub async fn lost(&mut self) -> Lost {
        match (&mut self.kept).await {
            Ok(why) => why,
            Err(error) => Lost(error.to_string()),
        }
    }

    /// End it now, with all that was written with it. Without etcd it ends by itself.
    pub async fn give_back(self) {
        self.kept.abort();
        let _ = answered(self.store.0.lease_client().revoke(self.id)).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.kept.abort();
    }
}

async fn keep(store: Store, id: i64) -> Lost {
    match kept(store, id).await {
        Ok(never) => match never {},
        Err(why) => why,
    }
}

async fn kept(store: Store, id: i64) -> Result<Infallible, Lost> {
    let (mut keeper, mut answers) = answered(store.0.lease_client().keep_alive(id)).await?;
    loop {
        sleep(KEPT_EVERY).await;
        keeper.keep_alive().await?;
        let left = answered(answers.message())
            .await?
            .map_or(0, |answer| answer.ttl());
        if left <= 0 {
            return Err(Lost("etcd: the lease has ended".into()));
        }
    }
}

/// What a controller was elected to: it writes as long as nobody else was.
pub struct Office {
    store: Store,
    key: Vec<u8>,
    since: i64,
}

impl Office {
    /// Write one key, to go with `lease` or to stay.
    pub async fn put(&self, key: &str, value: Vec<u8>, lease: Option<&Lease>) -> Result<(), Lost> {
        let options = lease.map(|lease| PutOptions::new().with_lease(lease.id));
        self.perform(TxnOp::put(key, value, options)).await
    }

    /// Remove one key.
    pub async fn delete(&self, key: &str) -> Result<(), Lost> {
        self.perform(TxnOp::delete(key, None)).await
    }

    async fn perform(&self, operation: TxnOp) -> Result<(), Lost> {
        let held = Compare::create_revision(self.key.clone(), CompareOp::Equal, self.since);
        if self.store.transact(held, operation).await? {
            return Ok(());
        }
        Err(Lost("another controller was elected".into()))
    }
}
