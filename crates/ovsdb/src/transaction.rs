//! Operations, and what the server answers to them (RFC 7047 §5.2).

use crate::value::{Atom, Datum, Uuid, shortened};
use serde_json::{Value as Json, json};

/// Operations that are done together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    operations: Vec<Json>,
    inserted: usize,
}

/// How `mutate` changes a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutator {
    /// Adds to numbers.
    Add,
    /// Values or pairs come.
    Insert,
    /// Values, pairs, or pairs of these keys go.
    Delete,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// One for each operation, in order.
    pub results: Vec<Done>,
}

/// What one operation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// So many rows changed or went.
    pub count: u64,
    /// The new row's name.
    pub uuid: Option<Uuid>,
    /// The rows that `select` found.
    pub rows: Vec<Json>,
}

/// Why a transaction was not done, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// The server refused it.
    #[error("operation {operation}: {error}{}", of_details(.details))]
    Refused {
        /// Which operation, from 0; one more than there are if it failed as a whole.
        operation: usize,
        /// RFC 7047's word for the error, such as `constraint violation`.
        error: String,
        /// The server's explanation, possibly empty.
        details: String,
    },
    /// The server does not know the request or the database.
    #[error("the server refused the request: {0}")]
    Request(String),
    /// The connection broke. Whether it was done is not known.
    #[error(
        "the connection broke before the answer came; whether the transaction was done is not known"
    )]
    Lost,
    /// It never reached the server.
    #[error("not connected to the database: {0}")]
    NotConnected(String),
    /// Too many wait already.
    #[error("{0} transactions wait for their answers already")]
    Busy(usize),
    /// No answer in the time given. Whether it will be done is not known.
    #[error("no answer within {0:?}; whether the transaction was done is not known")]
    TimeOut(std::time::Duration),
    /// The answer is none.
    #[error("{0} is no answer to a transaction")]
    Answer(String),
}

fn of_details(details: &str) -> String {
    if details.is_empty() { String::new() } else { format!(" ({details})") }
}

fn row<'a>(columns: impl IntoIterator<Item = (&'a str, Datum)>) -> Json {
    columns.into_iter().map(|(name, datum)| (name.to_owned(), datum.to_json())).collect()
}

fn by_uuid(uuid: Uuid) -> Json {
    json!([["_uuid", "==", Atom::Uuid(uuid).to_json()]])
}

impl Transaction {
    /// No operation yet.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// There is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// So many operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// A row comes. The answer stands for it within this transaction.
    pub fn insert<'a>(
        &mut self,
        table: &str,
        columns: impl IntoIterator<Item = (&'a str, Datum)>,
    ) -> Atom {
        self.inserted += 1;
        let name = format!("row{}", self.inserted);
        self.operations.push(json!({
            "op": "insert", "table": table, "row": row(columns), "uuid-name": name,
        }));
        Atom::Named(name)
    }

    /// Columns of a row change.
    pub fn update<'a>(
        &mut self,
        table: &str,
        uuid: Uuid,
        columns: impl IntoIterator<Item = (&'a str, Datum)>,
    ) {
        self.operations.push(json!({
            "op": "update", "table": table, "where": by_uuid(uuid), "row": row(columns),
        }));
    }

    /// Values of columns of a row come, go or are added to.
    pub fn mutate<'a>(
        &mut self,
        table: &str,
        uuid: Uuid,
        mutations: impl IntoIterator<Item = (&'a str, Mutator, Datum)>,
    ) {
        let mutation = |(column, mutator, datum): (&str, Mutator, Datum)| {
            let word = match mutator {
                Mutator::Add => "+=",
                Mutator::Insert => "insert",
                Mutator::Delete => "delete",
            };
            json!([column, word, datum.to_json()])
        };
        let mutations: Vec<Json> = mutations.into_iter().map(mutation).collect();
        self.operations.push(json!({
            "op": "mutate", "table": table, "where": by_uuid(uuid), "mutations": mutations,
        }));
    }

    /// A row goes.
    pub fn delete(&mut self, table: &str, uuid: Uuid) {
        self.operations.push(json!({"op": "delete", "table": table, "where": by_uuid(uuid)}));
    }

    /// All is done only if these columns of a row hold this now.
    pub fn expect<'a>(
        &mut self,
        table: &str,
        uuid: Uuid,
        columns: impl IntoIterator<Item = (&'a str, Datum)>,
    ) {
        let columns: Vec<_> = columns.into_iter().collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        self.operations.push(json!({
            "op": "wait", "table": table, "where": by_uuid(uuid), "columns": names,
            "until": "==", "rows": [row(columns)], "timeout": 0,
        }));
    }

    /// All is done only while this client has the lock.
    pub fn assert(&mut self, lock: &str) {
        self.operations.push(json!({"op": "assert", "lock": lock}));
    }

    /// A note for the server's log.
    pub fn comment(&mut self, text: &str) {
        self.operations.push(json!({"op": "comment", "comment": text}));
    }

    /// The operations, as `transact` takes them behind the database's name.
    pub fn to_json(&self) -> Vec<Json> {
        self.operations.clone()
    }
}

impl Outcome {
    /// From the answer to so many operations.
    pub fn of_json(answer: &Json, operations: usize) -> Result<Outcome, TransactionError> {
        let wrong = || TransactionError::Answer(shortened(&answer.to_string()));
        let answers = answer.as_array().ok_or_else(wrong)?;
        for (operation, result) in answers.iter().enumerate() {
            if let Some(error) = result.get("error").and_then(Json::as_str) {
                let details = result.get("details").and_then(Json::as_str).unwrap_or_default();
                let (error, details) = (error.to_owned(), details.to_owned());
                return Err(TransactionError::Refused { operation, error, details });
            }
        }
        if answers.len() != operations {
            return Err(wrong());
        }
        let results = answers.iter().map(|result| {
            let uuid = match result.pointer("/uuid/1").and_then(Json::as_str) {
                None => None,
                Some(text) => Some(text.parse().map_err(|_| wrong())?),
            };
            let count = result.get("count").and_then(Json::as_u64).unwrap_or_default();
            let rows = result.get("rows").and_then(Json::as_array).cloned().unwrap_or_default();
            Ok(Done { count, uuid, rows })
        });
        Ok(Outcome { results: results.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_rfc_7047() {
        let mut transaction = Transaction::new();
        let uuid = Uuid(1);
        let port = transaction.insert("Port", [("name", Datum::from("p"))]);
        transaction.mutate("Bridge", uuid, [("ports", Mutator::Insert, Datum::from(port))]);
        transaction.update("Bridge", uuid, [("status", Datum::map([("a", "b")]))]);
        transaction.expect("Bridge", uuid, [("name", Datum::from("br"))]);
        transaction.delete("Port", uuid);
        transaction.assert("lock");
        transaction.comment("text");
        let all = json!([["_uuid", "==", ["uuid", uuid.to_string()]]]);
        let wanted = json!([
            {"op": "insert", "table": "Port", "row": {"name": "p"}, "uuid-name": "row1"},
            {"op": "mutate", "table": "Bridge", "where": all,
             "mutations": [["ports", "insert", ["named-uuid", "row1"]]]},
            {"op": "update", "table": "Bridge", "where": all,
             "row": {"status": ["map", [["a", "b"]]]}},
            {"op": "wait", "table": "Bridge", "where": all, "columns": ["name"], "until": "==",
             "rows": [{"name": "br"}], "timeout": 0},
            {"op": "delete", "table": "Port", "where": all},
            {"op": "assert", "lock": "lock"},
            {"op": "comment", "comment": "text"},
        ]);
        assert_eq!(Json::from(transaction.to_json()), wanted);
        assert_eq!((transaction.len(), transaction.is_empty()), (7, false));
    }

    #[test]
    fn an_answer_is_an_outcome_or_the_first_error() {
        let uuid = Uuid(9);
        let answer = json!([{"uuid": ["uuid", uuid.to_string()]}, {"count": 2}, {}]);
        let outcome = Outcome::of_json(&answer, 3).expect("done");
        assert_eq!(outcome.results[0].uuid, Some(uuid));
        assert_eq!(outcome.results[1].count, 2);
        let answer = json!([{}, {"error": "constraint violation", "details": "why"}, null]);
        let error = Outcome::of_json(&answer, 3).expect_err("refused");
        assert_eq!(error.to_string(), "operation 1: constraint violation (why)");
        // An error of the commit stands behind all operations.
        let answer = json!([{}, {"error": "timed out"}]);
        let error = Outcome::of_json(&answer, 1).expect_err("refused");
        assert_eq!(error.to_string(), "operation 1: timed out");
        for wrong in [json!({}), json!([]), json!([{"uuid": ["uuid", "x"]}])] {
            let error = Outcome::of_json(&wrong, 1);
            assert!(matches!(error, Err(TransactionError::Answer(_))), "{wrong}");
        }
    }
}
