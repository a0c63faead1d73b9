//! The commands that there are: their words, what follows, what they do; and `help`.

use crate::diag::nearest;

/// A command: its word, what follows it, and how many words that are at least and at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Its word.
    pub(super) word: &'static str,
    /// What follows.
    pub(super) usage: &'static str,
    /// What it does.
    pub(super) about: &'static str,
    pub(super) least: usize,
    pub(super) most: usize,
}

const ANY: usize = usize::MAX;

const fn known(
    word: &'static str,
    usage: &'static str,
    (least, most): (usize, usize),
    about: &'static str,
) -> Known {
    Known { word, usage, about, least, most }
}

const CRC_USAGE: &str = "CRC POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER";

/// All of them.
pub(super) const KNOWN: &[Known] = &[
    known(
        "table_add",
        "TABLE ACTION KEY ... => [ARGUMENT ...] [PRIORITY]",
        (2, ANY),
        "Add an entry; tells its handle",
    ),
    known(
        "table_modify",
        "TABLE ACTION HANDLE [=>] [ARGUMENT ...]",
        (3, ANY),
        "Give an entry another action",
    ),
    known("table_delete", "TABLE HANDLE", (2, 2), "Remove an entry"),
    known("table_clear", "TABLE", (1, 1), "Remove all entries"),
    known(
        "table_set_default",
        "TABLE ACTION [ARGUMENT ...]",
        (2, ANY),
        "Set what is done where no entry matches",
    ),
    known(
        "table_reset_default",
        "TABLE",
        (1, 1),
        "Do again what the program says where no entry matches",
    ),
    known(
        "table_set_timeout",
        "TABLE HANDLE MILLISECONDS",
        (3, 3),
        "Tell of an entry that no packet matches for so long; 0: never",
    ),
    known("table_dump", "TABLE", (1, 1), "Show all entries and the default"),
    known("table_dump_entry", "TABLE HANDLE", (2, 2), "Show one entry"),
    known("table_info", "TABLE", (1, 1), "Show a table's keys, actions and counts"),
    known("table_num_entries", "TABLE", (1, 1), "Count a table's entries"),
    known("show_tables", "", (0, 0), "Show all tables"),
    known("show_actions", "", (0, 0), "Show all actions"),
    known("mc_mgrp_create", "GROUP", (1, 1), "Make a multicast group"),
    known("mc_mgrp_destroy", "GROUP", (1, 1), "Remove a multicast group"),
    known(
        "mc_mgrp_set",
        "GROUP [RID:PORT ...]",
        (1, ANY),
        "Set all copies of a multicast group, which may be new",
    ),
    known("mc_node_create", "RID PORT ...", (1, ANY), "Make a multicast node; tells its handle"),
    known("mc_node_update", "NODE PORT ...", (1, ANY), "Give a multicast node other ports"),
    known("mc_node_destroy", "NODE", (1, 1), "Remove a multicast node"),
    known("mc_node_associate", "GROUP NODE", (2, 2), "Put a node into a multicast group"),
    known("mc_node_dissociate", "GROUP NODE", (2, 2), "Take a node out of a multicast group"),
    known("mirroring_add", "SESSION PORT", (2, 2), "Send clones of a session to a port"),
    known(
        "mirroring_add_mc",
        "SESSION GROUP",
        (2, 2),
        "Send clones of a session to a multicast group",
    ),
    known("mirroring_delete", "SESSION", (1, 1), "Remove a session of clones"),
    known("register_read", "REGISTER [INDEX]", (1, 2), "Show a register, or one cell of it"),
    known("register_write", "REGISTER INDEX VALUE", (3, 3), "Write a cell of a register"),
    known("register_reset", "REGISTER", (1, 1), "Set all cells of a register to zero"),
    known("counter_read", "COUNTER INDEX", (2, 2), "Show a counter"),
    known("counter_reset", "COUNTER", (1, 1), "Set all cells of a counter to zero"),
    known(
        "meter_set_rates",
        "METER INDEX RATE:BURST [RATE:BURST]",
        (3, 4),
        "Set a meter's rates: a microsecond's, yellow then red",
    ),
    known(
        "meter_array_set_rates",
        "METER RATE:BURST [RATE:BURST]",
        (2, 3),
        "Set the rates of all cells of a meter",
    ),
    known("meter_reset_rates", "METER INDEX", (2, 2), "Take a meter's rates away: all is green"),
    known("meter_get_rates", "METER INDEX", (2, 2), "Show a meter's rates"),
    known(
        "act_prof_create_member",
        "PROFILE ACTION [ARGUMENT ...]",
        (2, ANY),
        "Make a member; tells its handle",
    ),
    known(
        "act_prof_modify_member",
        "PROFILE ACTION MEMBER [ARGUMENT ...]",
        (3, ANY),
        "Give a member another action",
    ),
    known("act_prof_delete_member", "PROFILE MEMBER", (2, 2), "Remove a member"),
    known("act_prof_create_group", "PROFILE", (1, 1), "Make a group; tells its handle"),
    known("act_prof_delete_group", "PROFILE GROUP", (2, 2), "Remove a group"),
    known(
        "act_prof_add_member_to_group",
        "PROFILE MEMBER GROUP",
        (3, 3),
        "Put a member into a group",
    ),
    known(
        "act_prof_remove_member_from_group",
        "PROFILE MEMBER GROUP",
        (3, 3),
        "Take a member out of a group",
    ),
    known("act_prof_dump", "PROFILE", (1, 1), "Show members and groups"),
    known("act_prof_dump_member", "PROFILE MEMBER", (2, 2), "Show one member"),
    known("act_prof_dump_group", "PROFILE GROUP", (2, 2), "Show one group"),
    known(
        "table_indirect_add",
        "TABLE KEY ... => MEMBER [PRIORITY]",
        (2, ANY),
        "Add an entry that refers to a member",
    ),
    known(
        "table_indirect_add_with_group",
        "TABLE KEY ... => GROUP [PRIORITY]",
        (2, ANY),
        "Add an entry that refers to a group",
    ),
    known(
        "table_indirect_delete",
        "TABLE HANDLE",
        (2, 2),
        "Remove an entry that refers to a member or group",
    ),
    known(
        "table_indirect_set_default",
        "TABLE MEMBER",
        (2, 2),
        "Refer to a member where no entry matches",
    ),
    known(
        "table_indirect_set_default_with_group",
        "TABLE GROUP",
        (2, 2),
        "Refer to a group where no entry matches",
    ),
    known(
        "table_indirect_reset_default",
        "TABLE",
        (1, 1),
        "Do again what the program says where no entry matches",
    ),
    known("set_crc16_parameters", CRC_USAGE, (6, 6), "Set the parameters of a crc16_custom"),
    known("set_crc32_parameters", CRC_USAGE, (6, 6), "Set the parameters of a crc32_custom"),
    known("show_crcs", "", (0, 0), "Show the parameters of custom CRCs"),
    known("pvs_add", "VALUE_SET VALUE", (2, 2), "Add a value to a value set"),
    known("pvs_remove", "VALUE_SET VALUE", (2, 2), "Remove a value from a value set"),
    known("pvs_clear", "VALUE_SET", (1, 1), "Remove all values from a value set"),
    known("pvs_get", "VALUE_SET", (1, 1), "Show a value set"),
    known("help", "[COMMAND]", (0, 1), "List the commands, or show how one is written"),
];

/// Commands of bmv2 for which there is nothing here, and why.
const REFUSED: &[(&str, &str)] = &[
    ("load_new_config_file", "a program is replaced by `millrace p4 load`"),
    ("swap_configs", "a program is replaced by `millrace p4 load`"),
    ("port_add", "ports are given to `millrace run` with --port"),
    ("reset_state", "write out what is to be reset: table_clear, register_reset, counter_reset"),
];

/// A command by its word; the error says why there is none.
pub(super) fn command(word: &str) -> Result<&'static Known, String> {
    KNOWN.iter().find(|known| known.word == word).ok_or_else(|| {
        if let Some((_, why)) = REFUSED.iter().find(|refused| refused.0 == word) {
            return format!("{word}: {why}");
        }
        let near = nearest(word, KNOWN.iter().map(|known| known.word));
        let near = near.map_or(String::new(), |near| format!("; the nearest is `{near}`"));
        format!("there is no command `{word}`{near}")
    })
}

/// What `help` tells: of one command, or of all.
pub(super) fn help(word: Option<&str>) -> Result<Vec<String>, String> {
    let Some(word) = word else {
        let widest = KNOWN.iter().map(|known| known.word.len()).max().unwrap_or(0);
        let line = |known: &Known| format!("{:widest$}  {}", known.word, known.about);
        return Ok(KNOWN.iter().map(line).collect());
    };
    let known = command(word)?;
    Ok(vec![format!("{word} {}", known.usage).trim_end().to_owned(), format!("  {}", known.about)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_tells_of_all_and_of_one() {
        let all = help(None).unwrap();
        assert_eq!(all.len(), KNOWN.len());
        assert!(all.iter().any(|line| line.starts_with("table_add ")), "{all:?}");
        let one = help(Some("table_delete")).unwrap();
        assert_eq!(one, ["table_delete TABLE HANDLE", "  Remove an entry"]);
        assert!(help(Some("show_tables")).unwrap()[0].ends_with("show_tables"));
        let near = help(Some("table_ad")).unwrap_err();
        assert_eq!(near, "there is no command `table_ad`; the nearest is `table_add`");
        assert!(help(Some("port_add")).unwrap_err().contains("--port"));
    }

    #[test]
    fn every_command_says_what_it_does() {
        for known in KNOWN {
            assert!(!known.about.is_empty() && known.least <= known.most, "{}", known.word);
            assert!(!known.about.ends_with('.'), "{}", known.word);
        }
    }
}
