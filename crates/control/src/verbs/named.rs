//! A verb for a list of named things of a bridge, shown, added and removed: bonds and mirrors are such.
//!
//! In: names that go and texts that come, in this order. Out: the things of the bridge that was named, or of all. What one
//! question asks for is done whole or not at all. A kind of thing implements [`Named`]; the rest is here.

use crate::bridges::{Bridge, Bridges, Error};
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use serde::de::DeserializeOwned;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

/// A kind of thing that a bridge has a list of.
pub trait Named: FromStr<Err: Display> + 'static {
    /// The verb's name on the wire, which is the thing's.
    const NAME: &'static str;
    /// What the verb does, in a line.
    const ABOUT: &'static str;
    /// What the answer calls the list.
    const LIST: &'static str;
    /// One as it is told.
    type Shown: Serialize + DeserializeOwned;

    /// Its name.
    fn name(&self) -> &str;
    /// Those of a bridge.
    fn of(bridge: &Bridge) -> Vec<Self>;
    /// One that is to be added can be.
    fn check(&self, _bridge: &Bridge) -> Result<(), String> {
        Ok(())
    }
    /// Those of a bridge are these from now on.
    fn set(bridges: &Bridges, bridge: &str, all: Vec<Self>) -> Result<(), Error>;
    /// There is none of a name.
    fn none(name: &str) -> String;
    /// As it is told.
    fn shown(self, bridge: &Bridge) -> Self::Shown;
    /// All of them for people.
    fn text(all: &[Self::Shown]) -> String;
}

/// The question: what to do, in this order, or nothing; then all are told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default, bound = "")]
pub struct List<T> {
    /// Remove those of these names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remove: Vec<String>,
    /// Add these, each as its kind is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    add: Vec<String>,
    #[serde(skip)]
    of: PhantomData<fn() -> T>,
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List { remove: Vec::new(), add: Vec::new(), of: PhantomData }
    }
}

impl<T: Named> List<T> {
    /// Asks to add what is written so. A text that cannot be read is refused before anybody is asked.
    pub fn adding(add: Vec<String>) -> Result<List<T>, String> {
        let list = List { add, ..List::default() };
        list.added().map(|_| list)
    }

    /// Asks to remove those of these names.
    pub fn removing(remove: Vec<String>) -> List<T> {
        List { remove, ..List::default() }
    }

    fn added(&self) -> Result<Vec<T>, String> {
        self.add.iter().map(|text| text.parse::<T>().map_err(|e| e.to_string())).collect()
    }
}

/// The answer.
#[derive(Debug)]
pub struct Answer<T: Named> {
    /// Those of the bridge that was named, or of all.
    pub all: Vec<T::Shown>,
}

impl<T: Named> Serialize for Answer<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(1))?;
        map.serialize_entry(T::LIST, &self.all)?;
        map.end()
    }
}

impl<'de, T: Named> Deserialize<'de> for Answer<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Answer<T>, D::Error> {
        let mut lists: BTreeMap<String, Vec<T::Shown>> = BTreeMap::deserialize(from)?;
        Ok(Answer { all: lists.remove(T::LIST).unwrap_or_default() })
    }
}

impl<T: Named> Verb for List<T> {
    const NAME: &'static str = T::NAME;
    const ABOUT: &'static str = T::ABOUT;
    type Answer = Answer<T>;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer<T>>, String> {
        let bridges = at.bridges()?;
        let added = self.added()?;
        if !(self.add.is_empty() && self.remove.is_empty()) {
            let bridge = at.bridge()?;
            let mut all = T::of(&bridge);
            for name in &self.remove {
                let before = all.len();
                all.retain(|one| one.name() != name);
                if all.len() == before {
                    return Err(T::none(name));
                }
            }
            for one in &added {
                one.check(&bridge)?;
            }
            all.extend(added);
            T::set(bridges, bridge.name(), all).map_err(|e| e.to_string())?;
        }
        let of = |bridge: &Bridge| -> Vec<T::Shown> {
            T::of(bridge).into_iter().map(|one| one.shown(bridge)).collect()
        };
        let all = match at.named() {
            Some(bridge) => of(bridge),
            None => bridges.all().iter().flat_map(|bridge| of(bridge)).collect(),
        };
        Ok(Reply::Answer(Answer { all }))
    }

    fn change(&self) -> Option<Change> {
        let how = match (self.add.is_empty(), self.remove.is_empty()) {
            (false, _) => "add",
            (_, false) => "delete",
            _ => return None,
        };
        let words: Vec<String> = self.remove.iter().chain(&self.add).cloned().collect();
        Some(Change { kind: T::NAME, how, text: words.join(" ") })
    }

    fn text(answer: &Answer<T>) -> String {
        T::text(&answer.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::{Bond, Mirror};

    #[test]
    fn the_wire_has_each_kinds_own_words() {
        let asked = List::<Bond>::adding(vec!["b0,members=p1,p2".to_owned()]).unwrap();
        let json = serde_json::to_string(&asked).unwrap();
        assert_eq!(json, r#"{"add":["b0,members=p1,p2"]}"#);
        let change = Verb::change(&asked).unwrap();
        assert_eq!(
            (change.kind, change.how, change.text.as_str()),
            ("bond", "add", "b0,members=p1,p2")
        );
        let gone = List::<Mirror>::removing(vec!["m0".to_owned()]);
        assert_eq!(Verb::change(&gone).unwrap().how, "delete");
        assert!(Verb::change(&List::<Mirror>::default()).is_none());
        let answer: Answer<Mirror> =
            serde_json::from_str(r#"{"mirrors":[{"bridge":"br0","name":"m0"}]}"#).unwrap();
        assert_eq!(answer.all[0].name, "m0");
        assert!(serde_json::to_string(&answer).unwrap().starts_with(r#"{"mirrors":[{"#));
    }

    #[test]
    fn texts_that_cannot_be_read_are_refused_before_anybody_is_asked() {
        let refused = List::<Bond>::adding(vec!["b0,members=p1,mode=odd".to_owned()]).unwrap_err();
        assert!(refused.contains("odd"), "{refused}");
    }
}
