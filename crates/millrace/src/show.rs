//! An answer of a switch, shown: as the JSON object that it is, or as the verb's text.

use control::client::text;
use control::failure::Failure;
use control::verb::Verb;
use serde_json::Value;

/// Shows the answer to a question.
pub(crate) fn show<V: Verb>(answer: Value, json: bool) -> Result<(), Failure> {
    if json {
        println!("{answer}");
    } else {
        print!("{}", text::<V>(answer)?);
    }
    Ok(())
}
