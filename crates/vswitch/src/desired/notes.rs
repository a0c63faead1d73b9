//! What a row asked for and does not get.

/// Texts for people, each with the feature in front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    texts: Vec<String>,
    refused: Option<String>,
}

impl Notes {
    /// One more. What the row asks for beside it is done.
    pub fn add(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }

    /// The whole row is refused: without this it would do something else than was asked. The first reason stays.
    pub fn refuse(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.refused.get_or_insert_with(|| text.clone());
        self.add(text);
    }

    /// The last note was not only missed: the row is of no use without it.
    pub fn refuse_for_last(&mut self) {
        if let Some(last) = self.texts.last().cloned() {
            self.refuse(last);
        }
    }

    /// Why the row is refused.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    /// In one line; none if there are none.
    pub fn line(&self) -> Option<String> {
        (!self.texts.is_empty()).then(|| self.texts.join("; "))
    }
}
