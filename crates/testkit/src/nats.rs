//! A broker: a real nats-server, for tests of what goes over it.
//!
//! It is `$NATS_SERVER`, one in the path, or the one that `lab/lib.sh` has made. Where there is none a test says so and passes, unless `STRICT=1`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server with a store on the disk, which outlives it.
#[derive(Debug)]
pub struct Nats {
    program: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    more: Option<String>,
    child: Option<Child>,
}

/// Where it is.
fn program() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("NATS_SERVER") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cache = std::env::var_os("LAB_CACHE").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        Some(cache.or_else(home)?.join("millrace-lab"))
    });
    let made = cache.map(|cache| cache.join("nats"));
    let mut folders = std::env::split_paths(&path).chain(made);
    folders.find_map(|folder| Some(folder.join("nats-server")).filter(|path| path.is_file()))
}

impl Nats {
    /// Starts one; `more` are further lines of its configuration. None where there is no server.
    ///
    /// # Panics
    /// If it does not start, or is not there with `STRICT=1`.
    pub fn start(more: Option<&str>) -> Option<Nats> {
        let Some(program) = program() else {
            assert!(std::env::var("STRICT").as_deref() != Ok("1"), "there is no nats-server");
            eprintln!("skipped: there is no nats-server (NATS_SERVER=PATH)");
            return None;
        };
        // Its own until now, and free when it starts.
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let folder = tempfile::tempdir().expect("there is room");
        let more = more.map(str::to_owned);
        let mut nats = Nats { program, folder, port, more, child: None };
        nats.up();
        Some(nats)
    }

    /// Its address, without a scheme.
    pub fn at(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it again where it was.
    ///
    /// # Panics
    /// If it does not start.
    pub fn up(&mut self) {
        let path = |name: &str| self.folder.path().join(name);
        let mut text = format!(
            "listen: \"127.0.0.1:{}\"\njetstream {{ store_dir: {:?} }}\n",
            self.port,
            path("js")
        );
        text.push_str(self.more.as_deref().unwrap_or_default());
        std::fs::write(path("nats.conf"), text).expect("there is room");
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(path("nats.conf")).arg("-l").arg(path("nats.log"));
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("nats-server starts"));
        let until = Instant::now() + crate::running::PATIENCE;
        while !self.log().contains("Server is ready") || !is_open(self.port) {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            assert!(ended.is_none() && Instant::now() < until, "nats-server: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills it.
    pub fn down(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_file(self.folder.path().join("nats.log"));
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("nats.log")).unwrap_or_default()
    }

    /// A folder that lives as long as it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn is_open(port: u16) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.down();
    }
}
