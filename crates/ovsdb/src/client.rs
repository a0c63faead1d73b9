//! The thread that keeps a session up, and the handle to it.

use crate::database::{Database, Followed};
use crate::remote::Remote;
use crate::schema::Schema;
use crate::session::{self, Ask, Ended, Resume};
use crate::transaction::{Outcome, Transaction, TransactionError};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// So many transactions wait for their answers at most.
pub const TRANSACTIONS_MAX: usize = 256;
/// The first pause between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// What to connect to, and what to follow.
#[derive(Clone, Debug)]
pub struct Config {
    /// The server.
    pub remote: Remote,
    /// The database's name, such as `Open_vSwitch`.
    pub database: String,
    /// The columns to follow.
    pub followed: Followed,
    /// A lock to wait for, so that one client at a time does the work. It does not keep the replica from being followed.
    pub lock: Option<String>,
    /// Keys for `ssl:`.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// A server that says nothing for so long is asked whether it is there, and given up after as long again.
    pub probe: Duration,
    /// Connecting, and each answer of the handshake, may take so long.
    pub answer_max: Duration,
    /// The longest pause between two attempts to connect; the first is a tenth of a second, and each is twice the last.
    pub pause_max: Duration,
}

impl Config {
    /// A database on a server, of which nothing is followed yet.
    pub fn new(remote: Remote, database: &str) -> Config {
        Config {
            remote,
            database: database.to_owned(),
            followed: Followed::new(),
            lock: None,
            tls: None,
            probe: Duration::from_secs(5),
            answer_max: Duration::from_secs(30),
            pause_max: Duration::from_secs(8),
        }
    }

    /// Follows these columns of this table, too.
    pub fn follow<'a>(mut self, table: &str, columns: impl IntoIterator<Item = &'a str>) -> Config {
        let followed = self.followed.entry(table.to_owned()).or_default();
        for column in columns {
            if !followed.iter().any(|known| known == column) {
                followed.push(column.to_owned());
            }
        }
        self
    }
}

/// What is known of the database.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Each change of anything here raises it.
    pub generation: u64,
    /// A session is up, and `database` is what the server has.
    pub connected: bool,
    /// The last state that was seen. It stays while there is no connection.
    pub database: Option<Arc<Database>>,
    /// The server's schema.
    pub schema: Option<Arc<Schema>>,
    /// Tables and columns that were asked for and that the server's schema lacks. Their columns are absent from rows.
    pub missing: Arc<[String]>,
    /// This client has the lock that it asked for.
    pub locked: bool,
    /// Why there is no connection.
    pub error: Option<String>,
    /// Attempts to connect that failed since the last session.
    pub attempts: u64,
    /// Sessions so far.
    pub sessions: u64,
    /// Updates that did not fit the replica: it was asked for anew.
    pub resyncs: u64,
}

/// What the thread and its handle share.
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A state is whole at any time; whoever panicked with it left it so.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.generation += 1;
        drop(state);
        self.changed.notify_all();
    }
}

/// A connection to a database that is made again whenever it is lost.
pub struct Client {
    shared: Arc<Shared>,
    /// Taken when the client stops.
    asks: Option<mpsc::Sender<Ask>>,
    thread: Option<JoinHandle<()>>,
}

/// A transaction that was sent.
#[must_use = "whether it was done is told by `wait`"]
pub struct Pending(Receiver<Result<Outcome, TransactionError>>);

impl Pending {
    /// Waits for the answer. What the transaction changed in followed columns is in the replica by then.
    pub fn wait(self, most: Duration) -> Result<Outcome, TransactionError> {
        match self.0.recv_timeout(most) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(TransactionError::TimeOut(most)),
            Err(RecvTimeoutError::Disconnected) => Err(TransactionError::Lost),
        }
    }
}

impl Client {
    /// Starts to connect. Errors are those of starting a thread; a server that is not there is waited for.
    pub fn start(config: Config) -> std::io::Result<Client> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let (sender, asks) = mpsc::channel(TRANSACTIONS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let of_thread = shared.clone();
        let body = move || runtime.block_on(keep_up(&config, &of_thread, asks));
        let thread = std::thread::Builder::new().name("ovsdb".to_owned()).spawn(body)?;
        Ok(Client { shared, asks: Some(sender), thread: Some(thread) })
    }

    /// What is known now.
    pub fn state(&self) -> State {
        self.shared.lock().clone()
    }

    /// What is known once it is newer than `seen`, or when the time is over. Before the first state 0 is newest.
    pub fn wait(&self, seen: u64, most: Duration) -> State {
        self.wait_until(most, |state| state.generation > seen)
    }

    /// What is known once `wanted` says so, or when the time is over.
    pub fn wait_until(&self, most: Duration, wanted: impl Fn(&State) -> bool) -> State {
        let guard = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(guard, most, |state| !wanted(state));
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0.clone()
    }

    /// Sends a transaction.
    pub fn transact(&self, transaction: Transaction) -> Result<Pending, TransactionError> {
        let (answer, pending) = sync_channel(1);
        let gone = || TransactionError::NotConnected("the client has stopped".to_owned());
        let asks = self.asks.as_ref().ok_or_else(gone)?;
        let state = self.shared.lock();
        if !state.connected {
            let error = state.error.clone().unwrap_or_else(|| "still connecting".to_owned());
            return Err(TransactionError::NotConnected(error));
        }
        drop(state);
        match asks.try_send(Ask { transaction, answer }) {
            Ok(()) => Ok(Pending(pending)),
            Err(TrySendError::Full(_)) => Err(TransactionError::Busy(TRANSACTIONS_MAX)),
            Err(TrySendError::Closed(_)) => Err(gone()),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The thread ends when nobody can ask any more.
        drop(self.asks.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the database's client has panicked");
        }
    }
}

/// One session after another, until nobody asks any more.
async fn keep_up(config: &Config, shared: &Shared, mut asks: mpsc::Receiver<Ask>) {
    let (mut resume, mut pause) = (Resume::default(), PAUSE_MIN);
    let remote = &config.remote;
    loop {
        let error = match session::run(config, shared, &mut asks, &mut resume).await {
            Ended::Stopped => return,
            Ended::Failed(error) => error,
        };
        let mut was_up = false;
        let mut attempts = 0;
        shared.change(|state| {
            was_up = std::mem::take(&mut state.connected);
            state.locked = false;
            state.attempts = if was_up { 0 } else { state.attempts + 1 };
            state.error = Some(error.to_string());
            attempts = state.attempts;
        });
        if was_up {
            tracing::warn!(%remote, %error, "the connection to the database was lost");
            pause = PAUSE_MIN;
        } else if attempts.is_power_of_two() {
            tracing::warn!(%remote, %error, attempts, "the database is not reached");
        }
        let until = Instant::now() + pause;
        pause = pause.saturating_mul(2).min(config.pause_max.max(PAUSE_MIN));
        // What was sent before the loss was known is answered, too.
        loop {
            tokio::select! {
                ask = asks.recv() => match ask {
                    None => return,
                    Some(ask) => ask.refuse(TransactionError::NotConnected(error.to_string())),
                },
                () = tokio::time::sleep_until(until.into()) => break,
            }
        }
    }
}
