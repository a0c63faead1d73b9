//! The body of the fuzz target `ovsdb`, which a unit test runs too. Hidden: only tests and the fuzz target call it.

use crate::database::{Database, Followed, Form};
use crate::message::{Frames, Message};
use crate::schema::Schema;
use crate::transaction::Outcome;
use serde_json::json;

/// What a server sends: any bytes are refused or read; an update is applied whole or not at all; what was read is
/// written and read again the same.
pub fn server(data: &[u8]) {
    let column = json!({"type": {"key": "string", "value": "uuid", "min": 0, "max": "unlimited"}});
    let plain = json!({"type": {"key": "integer", "min": 0, "max": "unlimited"}});
    let tables = json!({"T": {"columns": {"map": column, "set": plain, "one": {"type": "real"}}}});
    let schema = json!({"name": "d", "version": "1.0.0", "tables": tables});
    let schema = Schema::of_json(&schema).expect("a schema");
    let columns = ["map", "set", "one"].map(str::to_owned).to_vec();
    let followed = Followed::from([("T".to_owned(), columns)]);
    let (mut frames, mut database) = (Frames::new(4096), Database::default());
    for part in data.chunks(7) {
        frames.push(part);
        loop {
            let json = match frames.take() {
                Ok(Some(json)) => json,
                Ok(None) => break,
                // The connection would be given up.
                Err(error) => return assert!(!error.to_string().is_empty()),
            };
            // A schema may come from a server, too.
            drop(Schema::of_json(&json));
            let Ok(message) = Message::of_json(json) else { continue };
            let mut again = Frames::default();
            again.push(&message.to_bytes());
            let read = again.take().expect("what was written").expect("a whole message");
            assert_eq!(Message::of_json(read).as_ref(), Ok(&message));
            match message {
                Message::Response { result: Ok(result), .. } => drop(Outcome::of_json(&result, 1)),
                Message::Notification { method, params } => {
                    let form = if method == "update" { Form::Plain } else { Form::Differences };
                    for update in &params {
                        let before = database.clone();
                        if database.apply(&schema, &followed, form, update).is_err() {
                            assert_eq!(database, before);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    const UUID: &str = "00000000-0000-0000-0000-000000000001";

    /// Pieces of which updates are made.
    fn pieces() -> impl Strategy<Value = String> {
        let words = [
            r#"{"method":"update","id":null,"params":["#,
            r#"{"method":"update3","id":null,"params":["#,
            r#"{"T":{"#,
            r#""insert":{"#,
            r#""modify":{"#,
            r#""delete":null"#,
            r#""map":["map",[]]"#,
            r#""set":["set",[1,2]]"#,
            r#""one":-0.5"#,
            "}",
            "]",
            ",",
            "null",
            r#"{"id":1,"result":[{"uuid":["uuid","x"]}],"error":null}"#,
        ];
        let uuid = format!("\"{UUID}\":{{");
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        words.push(uuid);
        prop::sample::select(words)
    }

    #[test]
    fn an_update_of_each_form_is_applied() {
        for (method, row) in [("update", "new"), ("update2", "insert")] {
            let row = format!(r#"{{"{UUID}":{{"{row}":{{"one":1.5,"set":["set",[1]]}}}}}}"#);
            let text = format!(r#"{{"method":"{method}","id":null,"params":["m",{{"T":{row}}}]}}"#);
            super::server(text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn nothing_that_a_server_sends_is_fatal(pieces in prop::collection::vec(pieces(), 0..30)) {
            super::server(pieces.concat().as_bytes());
        }
    }
}
