//! One connection: its handshake, monitors, lock, probes.

use crate::client::{Config, Shared, TRANSACTIONS_MAX};
use crate::database::{Database, Followed, Form, UpdateError};
use crate::message::{Frames, Message, MessageError};
use crate::remote::Remote;
use crate::schema::{Schema, SchemaError};
use crate::transaction::{Outcome, Transaction, TransactionError};
use crate::value::shortened;
use rustls::pki_types::ServerName;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// The monitor's name in messages.
const MONITOR: &str = "millrace";
/// The name of a transaction that nothing has been done since: a server asked so sends everything.
const NO_TRANSACTION: &str = "00000000-0000-0000-0000-000000000000";
/// So many octets are read at once.
const READ_MAX: usize = 64 << 10;

/// A transaction on its way to the server.
pub(crate) struct Ask {
    pub(crate) transaction: Transaction,
    pub(crate) answer: SyncSender<Result<Outcome, TransactionError>>,
}

impl Ask {
    pub(crate) fn refuse(self, error: TransactionError) {
        // Nobody may wait any more.
        drop(self.answer.send(Err(error)));
    }
}

/// What the next session begins with.
#[derive(Default)]
pub(crate) struct Resume {
    /// The last transaction that the replica has, if the server names them.
    last: Option<String>,
    database: Arc<Database>,
    schema: Option<Arc<Schema>>,
}

/// Why a session has ended.
pub(crate) enum Ended {
    /// Nobody can ask any more.
    Stopped,
    /// It broke.
    Failed(SessionError),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Message(#[from] MessageError),
    #[error("the schema of {database}: {source}")]
    Schema { database: String, source: SchemaError },
    #[error("{0}; the tables are asked for anew")]
    Update(#[from] UpdateError),
    #[error("{method}: the server answers {error}")]
    Refused { method: &'static str, error: String },
    #[error("{0}: no answer within {1:?}")]
    Late(&'static str, Duration),
    #[error("the server has closed the connection")]
    Closed,
    #[error("the server has ended the monitor: its database was taken away or converted")]
    Canceled,
    #[error("{0} needs keys: a private key, a certificate and the authority's certificate")]
    NoKeys(Remote),
    #[error("{0} is no name that a certificate could have")]
    Name(String),
}

fn failed(error: impl Into<SessionError>) -> Ended {
    Ended::Failed(error.into())
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn connect(config: &Config) -> Result<Box<dyn Stream>, SessionError> {
    let tcp = |host: &str, port| {
        let host = host.to_owned();
        async move {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        }
    };
    Ok(match &config.remote {
        Remote::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Remote::Tcp { host, port } => Box::new(tcp(host, *port).await?),
        Remote::Tls { host, port } => {
            let keys = config.tls.clone();
            let keys = keys.ok_or_else(|| SessionError::NoKeys(config.remote.clone()))?;
            let name = ServerName::try_from(host.clone());
            let name = name.map_err(|_| SessionError::Name(host.clone()))?;
            let stream = tcp(host, *port).await?;
            Box::new(tokio_rustls::TlsConnector::from(keys).connect(name, stream).await?)
        }
    })
}

/// One session from its beginning to its end.
pub(crate) async fn run(
    config: &Config,
    shared: &Shared,
    asks: &mut mpsc::Receiver<Ask>,
    resume: &mut Resume,
) -> Ended {
    // While there is no session yet, whoever asks is told so.
    let begun = {
        let mut begin = std::pin::pin!(begin(config, resume));
        loop {
            tokio::select! {
                begun = &mut begin => break begun,
                ask = asks.recv() => match ask {
                    None => return Ended::Stopped,
                    Some(ask) => {
                        ask.refuse(TransactionError::NotConnected("still connecting".to_owned()));
                    }
                },
            }
        }
    };
    let (mut session, first) = match begun {
        Ok(begun) => begun,
        Err(error) => return Ended::Failed(error),
    };
    resume.last = first.last;
    resume.schema = Some(session.schema.clone());
    resume.database = Arc::new(first.database);
    shared.change(|state| {
        state.connected = true;
        state.database = Some(resume.database.clone());
        state.schema = Some(session.schema.clone());
        state.missing = first.missing.into();
        state.locked = session.locked;
        state.error = None;
        state.attempts = 0;
        state.sessions += 1;
    });
    let (remote, database) = (&config.remote, &config.database);
    tracing::info!(%remote, database, rows = resume.database.len(), "connected to the database");
    let ended = session.serve(config, shared, asks, resume).await;
    if let Ended::Failed(SessionError::Update(_)) = &ended {
        *resume = Resume::default();
        shared.change(|state| state.resyncs += 1);
    }
    for (_, ask) in std::mem::take(&mut session.waiting) {
        ask.refuse(TransactionError::Lost);
    }
    ended
}

/// What a session begins with.
struct First {
    database: Database,
    last: Option<String>,
    missing: Vec<String>,
}

struct Session {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    frames: Frames,
    buffer: Vec<u8>,
    /// Bytes that are not written yet.
    out: Vec<u8>,
    ids: u64,
    schema: Arc<Schema>,
    followed: Followed,
    form: Form,
    locked: bool,
    /// Transactions whose answers have not come.
    waiting: BTreeMap<u64, Ask>,
}

async fn begin(config: &Config, resume: &Resume) -> Result<(Session, First), SessionError> {
    let late = SessionError::Late("connect", config.answer_max);
    let stream = timeout(config.answer_max, connect(config)).await.map_err(|_| late)??;
    let (reader, writer) = tokio::io::split(stream);
    let mut session = Session {
        reader,
        writer,
        frames: Frames::default(),
        buffer: vec![0; READ_MAX],
        out: Vec::new(),
        ids: 0,
        schema: Arc::new(Schema {
            name: String::new(),
            version: String::new(),
            tables: BTreeMap::new(),
        }),
        followed: Followed::new(),
        form: Form::Differences,
        locked: false,
        waiting: BTreeMap::new(),
    };
    // Servers since 2.9 then tell of a database that goes, and do not break the connection. Older ones refuse.
    drop(session.call(config, "set_db_change_aware", vec![json!(true)]).await?);
    let database = &config.database;
    let refused = |method| move |error: Json| SessionError::Refused { method, error: told(&error) };
    let json = session.call(config, "get_schema", vec![json!(database)]).await?;
    let json = json.map_err(refused("get_schema"))?;
    let schema = Schema::of_json(&json)
        .map_err(|source| SessionError::Schema { database: database.clone(), source })?;
    let missing = session.choose(config, schema);
    if let Some(lock) = &config.lock {
        let answer = session.call(config, "lock", vec![json!(lock)]).await?;
        let answer = answer.map_err(refused("lock"))?;
        session.locked |= answer.get("locked") == Some(&Json::Bool(true));
    }
    let (database, last) = session.monitor(config, resume).await?;
    Ok((session, First { database, last, missing }))
}

/// An error of the server's, in its own words.
fn told(error: &Json) -> String {
    let word = |name: &str| error.get(name).and_then(Json::as_str);
    match (word("error"), word("details")) {
        (Some(error), Some(details)) => format!("{error} ({details})"),
        (Some(error), None) => error.to_owned(),
        _ => error.as_str().map_or_else(|| shortened(&error.to_string()), str::to_owned),
    }
}

/// The server does not know the method.
fn is_unknown(error: &Json) -> bool {
    told(error).starts_with("unknown method")
}

impl Session {
    /// Takes a schema, and says what of the columns wanted it lacks.
    fn choose(&mut self, config: &Config, schema: Schema) -> Vec<String> {
        let mut missing = Vec::new();
        for (name, columns) in &config.followed {
            let Some(table) = schema.tables.get(name) else {
                missing.push(name.clone());
                continue;
            };
            let (known, unknown): (Vec<_>, Vec<_>) =
                columns.iter().cloned().partition(|column| table.columns.contains_key(column));
            missing.extend(unknown.iter().map(|column| format!("{name}.{column}")));
            self.followed.insert(name.clone(), known);
        }
        if !missing.is_empty() {
            let (version, missing) = (&schema.version, missing.join(", "));
            tracing::warn!(version, missing, "the database's schema lacks what is looked for");
        }
        self.schema = Arc::new(schema);
        missing
    }

    /// Asks for a monitor by the newest method that the server knows.
    async fn monitor(
        &mut self,
        config: &Config,
        resume: &Resume,
    ) -> Result<(Database, Option<String>), SessionError> {
        let database = json!(config.database);
        let plain: Json = self
            .followed
            .iter()
            .map(|(table, columns)| (table.clone(), json!({"columns": columns})))
            .collect();
        let listed: Json = self
            .followed
            .iter()
            .map(|(table, columns)| (table.clone(), json!([{"columns": columns}])))
            .collect();
        let same = resume.schema.as_ref().is_some_and(|schema| **schema == *self.schema);
        let last = resume.last.as_deref().filter(|_| same).unwrap_or(NO_TRANSACTION);
        let methods: [(&'static str, Form, Vec<Json>); 3] = [
            (
                "monitor_cond_since",
                Form::Differences,
                vec![database.clone(), json!(MONITOR), listed.clone(), json!(last)],
            ),
            ("monitor_cond", Form::Differences, vec![database.clone(), json!(MONITOR), listed]),
            ("monitor", Form::Plain, vec![database, json!(MONITOR), plain]),
        ];
        for (method, form, params) in methods {
            let answer = match self.call(config, method, params).await? {
                Ok(answer) => answer,
                Err(error) if is_unknown(&error) && method != "monitor" => continue,
                Err(error) => return Err(SessionError::Refused { method, error: told(&error) }),
            };
            self.form = form;
            let wrong = || UpdateError::Shape(shortened(&answer.to_string()));
            let (mut replica, last, update) = if method == "monitor_cond_since" {
                let Some([Json::Bool(found), Json::String(last), update]) =
                    answer.as_array().map(Vec::as_slice)
                else {
                    return Err(wrong().into());
                };
                let base =
                    if *found { Database::clone(&resume.database) } else { Database::default() };
                (base, Some(last.clone()), update)
            } else {
                (Database::default(), None, &answer)
            };
            replica.apply(&self.schema, &self.followed, form, update)?;
            return Ok((replica, last));
        }
        Err(SessionError::Refused { method: "monitor", error: "unknown method".to_owned() })
    }

    /// Asks, and waits for the answer; only before the session serves.
    async fn call(
        &mut self,
        config: &Config,
        method: &'static str,
        params: Vec<Json>,
    ) -> Result<Result<Json, Json>, SessionError> {
        self.ids += 1;
        let wanted = json!(self.ids);
        let request = Message::Request { method: method.to_owned(), params, id: wanted.clone() };
        self.out.extend(request.to_bytes());
        let answer = async {
            loop {
                self.writer.write_all(&self.out).await?;
                self.out.clear();
                while let Some(json) = self.frames.take()? {
                    match Message::of_json(json)? {
                        Message::Response { result, id } if id == wanted => return Ok(result),
                        Message::Response { .. } => {}
                        other => self.beside(other)?,
                    }
                }
                if self.out.is_empty() {
                    self.read().await?;
                }
            }
        };
        let late = |_| SessionError::Late(method, config.answer_max);
        timeout(config.answer_max, answer).await.map_err(late)?
    }

    async fn read(&mut self) -> Result<(), SessionError> {
        let count = self.reader.read(&mut self.buffer).await?;
        if count == 0 {
            return Err(SessionError::Closed);
        }
        self.frames.push(&self.buffer[..count]);
        Ok(())
    }

    /// What the server asks or tells that is no update.
    fn beside(&mut self, message: Message) -> Result<(), SessionError> {
        match message {
            Message::Request { method, params, id } => {
                let result = match method.as_str() {
                    "echo" => Ok(Json::from(params)),
                    _ => Err(json!("unknown method")),
                };
                self.out.extend(Message::Response { result, id }.to_bytes());
            }
            Message::Notification { method, .. } => match method.as_str() {
                "locked" => self.locked = true,
                "stolen" => self.locked = false,
                "monitor_canceled" => return Err(SessionError::Canceled),
                other => tracing::debug!(method = other, "a notification that is not known"),
            },
            Message::Response { .. } => {}
        }
        Ok(())
    }

    /// Follows the database and sends transactions until the connection breaks or nobody can ask any more.
    async fn serve(
        &mut self,
        config: &Config,
        shared: &Shared,
        asks: &mut mpsc::Receiver<Ask>,
        resume: &mut Resume,
    ) -> Ended {
        let (mut heard, mut probed) = (Instant::now(), false);
        loop {
            loop {
                match self.frames.take() {
                    Ok(None) => break,
                    Ok(Some(json)) => {
                        if let Err(error) = self.take(json, shared, resume) {
                            return Ended::Failed(error);
                        }
                    }
                    Err(error) => return failed(error),
                }
            }
            let due = heard + if probed { config.probe.saturating_mul(2) } else { config.probe };
            let room = self.waiting.len() < TRANSACTIONS_MAX;
            tokio::select! {
                read = self.reader.read(&mut self.buffer) => match read {
                    Ok(0) => return failed(SessionError::Closed),
                    Ok(count) => {
                        self.frames.push(&self.buffer[..count]);
                        (heard, probed) = (Instant::now(), false);
                    }
                    Err(error) => return failed(error),
                },
                written = self.writer.write(&self.out), if !self.out.is_empty() => match written {
                    Ok(0) => return failed(SessionError::Closed),
                    Ok(count) => drop(self.out.drain(..count)),
                    Err(error) => return failed(error),
                },
                ask = asks.recv(), if room => match ask {
                    None => return Ended::Stopped,
                    Some(ask) => self.send(config, ask),
                },
                () = sleep_until(due) => {
                    if probed {
                        return failed(SessionError::Late("echo", config.probe));
                    }
                    probed = true;
                    let (method, id) = ("echo".to_owned(), json!("echo"));
                    self.out.extend(Message::Request { method, params: Vec::new(), id }.to_bytes());
                },
            }
            // What TLS keeps back is sent before anything is waited for.
            if self.out.is_empty()
                && let Err(error) = self.writer.flush().await
            {
                return failed(error);
            }
        }
    }

    fn send(&mut self, config: &Config, ask: Ask) {
        self.ids += 1;
        let mut params = vec![json!(config.database)];
        params.extend(ask.transaction.to_json());
        let method = "transact".to_owned();
        self.out.extend(Message::Request { method, params, id: json!(self.ids) }.to_bytes());
        self.waiting.insert(self.ids, ask);
    }

    /// One message.
    fn take(
        &mut self,
        json: Json,
        shared: &Shared,
        resume: &mut Resume,
    ) -> Result<(), SessionError> {
        match Message::of_json(json)? {
            Message::Response { result, id } => {
                let ask = id.as_u64().and_then(|id| self.waiting.remove(&id));
                let Some(ask) = ask else { return Ok(()) };
                let outcome = match result {
                    Ok(answer) => Outcome::of_json(&answer, ask.transaction.len()),
                    Err(error) => Err(TransactionError::Request(told(&error))),
                };
                // Nobody may wait any more.
                drop(ask.answer.send(outcome));
            }
            Message::Notification { method, params }
                if matches!(method.as_str(), "update" | "update2" | "update3") =>
            {
                let update = match (method.as_str(), params.as_slice()) {
                    ("update3", [_, Json::String(last), update]) => {
                        resume.last = Some(last.clone());
                        update
                    }
                    ("update" | "update2", [_, update]) => update,
                    _ => return Err(UpdateError::Shape(method).into()),
                };
                let database = Arc::make_mut(&mut resume.database);
                database.apply(&self.schema, &self.followed, self.form, update)?;
                shared.change(|state| state.database = Some(resume.database.clone()));
            }
            other => {
                let before = self.locked;
                self.beside(other)?;
                if self.locked != before {
                    tracing::info!(has = self.locked, "the lock of the database has changed hands");
                    shared.change(|state| state.locked = self.locked);
                }
            }
        }
        Ok(())
    }
}
