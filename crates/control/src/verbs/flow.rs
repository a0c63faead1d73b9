//! `flow`: one flow entry added, or entries changed or deleted, as a line of `ovs-ofctl` says.

use crate::program::tables::{self, Told};
use crate::protocol::Reply;
use crate::verb::{At, Change, Verb};
use openflow::PortNo;
use serde::{Deserialize, Serialize};

/// The question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// A line as `ovs-ofctl` takes it in a file: `table=0,ip actions=drop`, `delete tcp`.
    pub line: String,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Entries of all tables now.
    pub total: usize,
}

impl Verb for Flow {
    const NAME: &'static str = "flow";
    const ABOUT: &'static str = "A flow entry added, or entries changed or deleted";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bridge = at.bridge()?;
        let Some(openflow) = bridge.openflow() else {
            return Err(format!(
                "bridge {:?} runs a P4 program; `millrace p4 do` changes its entries",
                bridge.name()
            ));
        };
        let ports = bridge.switch().ports();
        let named = |name: &str| {
            let port = ports.iter().find(|port| port.info.name == name)?;
            Some(PortNo(port.number))
        };
        tables::tell(&mut openflow.agent(), Told::Flow, &self.line, &named)?;
        bridge.switch().sync();
        let total = openflow.agent().flows().total().0;
        Ok(Reply::Answer(Answer { total }))
    }

    fn change(&self) -> Option<Change> {
        let command = self.line.split([' ', ',']).next().unwrap_or_default();
        let how = match command {
            "modify" | "modify_strict" => "modify",
            "delete" | "delete_strict" => "delete",
            _ => "add",
        };
        Some(Change { kind: "flow", how, text: self.line.clone() })
    }

    fn text(answer: &Answer) -> String {
        format!("{} entries\n", answer.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridges::BridgeConfig;
    use crate::bridges::bed::{LONG, ask, bridges, frame, memory};
    use switch::EngineKind;

    #[test]
    fn entries_come_and_go_by_a_line() {
        let bridges = bridges(1, EngineKind::default());
        bridges.add(BridgeConfig::named("br0")).unwrap();
        let (one, two) = (memory(&bridges, "br0", "flow-a"), memory(&bridges, "br0", "flow-b"));
        let of = |line: &str| ask(&bridges, Flow { line: line.to_owned() }).map(|told| told.total);
        assert_eq!(of("in_port=flow-a,actions=output:flow-b"), Ok(1));
        assert!(one.inject_bytes(&frame(2, 1, 7)));
        two.take_within(LONG).expect("a frame comes through");
        assert_eq!(of("table=3,priority=7,ip,actions=drop"), Ok(2));
        assert!(of("nonsense").unwrap_err().starts_with("column 1: "));
        assert_eq!(of("delete ip,table=3"), Ok(1));
        assert_eq!(of("delete"), Ok(0));
        for (line, how) in
            [("delete ip", "delete"), ("modify actions=drop", "modify"), ("actions=drop", "add")]
        {
            assert_eq!(Flow { line: line.to_owned() }.change().unwrap().how, how);
        }
        bridges.stop();
    }
}
