//! Files of flow entries, groups and meters: as `ovs-ofctl` takes them, and as it dumps them.
//!
//! A dump begins with the kind of the reply (`OFPST_GROUP_DESC reply (OF1.5) (xid=0x2):`), and one of meters has a line
//! for each meter and each band, with spaces between the words. [`lines`] leaves the one out and joins the other, so that
//! what a switch was programmed with can be given to another.

/// The lines of a text that say something, each with its number, comments left out.
pub fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() || is_head(line) {
            continue;
        }
        match lines.last_mut() {
            // A band of the meter before.
            Some((_, meter)) if line.starts_with("type=") && meter.contains("bands=") => {
                let comma = if meter.ends_with("bands=") { "" } else { "," };
                *meter = format!("{meter}{comma}{}", commas(line));
            }
            _ if line.starts_with("meter=") => lines.push((number, commas(line))),
            _ => lines.push((number, line.to_owned())),
        }
    }
    lines
}

/// The first line of a dump.
fn is_head(line: &str) -> bool {
    let kind = line.split_once(" reply ").map_or("", |(kind, _)| kind);
    (kind.starts_with("OFPST_") || kind.starts_with("NXST_")) && line.ends_with(':')
}

/// With commas for blanks.
fn commas(line: &str) -> String {
    line.split([' ', ',']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_and_what_is_added_are_read_alike() {
        let text = "OFPST_METER_CONFIG reply (OF1.5) (xid=0x2):\nmeter=1 pktps stats bands=\ntype=drop rate=10\n\n\
                    meter=2 kbps burst bands=\ntype=drop rate=9 burst_size=3\ntype=dscp_remark rate=5 prec_level=1 \n";
        let expected = [
            (2, "meter=1,pktps,stats,bands=type=drop,rate=10"),
            (
                5,
                "meter=2,kbps,burst,bands=type=drop,rate=9,burst_size=3,type=dscp_remark,rate=5,prec_level=1",
            ),
        ];
        let read = |text| -> Vec<(usize, String)> { lines(text) };
        assert_eq!(read(text), expected.map(|(n, line)| (n, line.to_owned())));
        let added = expected.map(|(_, line)| line).join("\n");
        assert_eq!(read(&added), [(1, expected[0].1.to_owned()), (2, expected[1].1.to_owned())]);
        let flows = " cookie=0x1, table=3, in_port=1 actions=output:2 # a comment\n\n# one\nNXST_FLOW reply (xid=0x4):\n";
        assert_eq!(
            read(flows),
            [(1, "cookie=0x1, table=3, in_port=1 actions=output:2".to_owned())]
        );
    }
}
