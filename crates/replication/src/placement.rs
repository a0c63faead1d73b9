//! Who is to have which share: the order in which a share prefers the members.
//!
//! Every member comes to the same order by itself, from the members' names alone: rendezvous hashing (Thaler, Ravishankar: "Using name-based
//! mappings to increase hit rates", 1998). So shares are spread evenly, and a member that comes or goes moves only its own.

/// The place of a member in the order of a share, from 0: the members that are named in `prefer` come first, in that order.
pub fn place(share: &str, member: &str, others: &[String], prefer: &[String]) -> usize {
    let weigh = |name: &str| {
        let named = prefer.iter().position(|wanted| wanted == name).unwrap_or(usize::MAX);
        (named, std::cmp::Reverse(weight(share, name)), name.to_owned())
    };
    let mine = weigh(member);
    others.iter().filter(|other| weigh(other) < mine).count()
}

/// The same place as a priority: the first has the highest.
pub fn priority(place: usize) -> u8 {
    u8::try_from(place).map_or(1, |place| (u8::MAX - place).max(1))
}

/// FNV-1a over both names, mixed as SplitMix64 does it.
fn weight(share: &str, member: &str) -> u64 {
    let octets = share.bytes().chain([0]).chain(member.bytes());
    let hash = octets.fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(share: &str, members: &[&str], prefer: &[&str]) -> String {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let is_first = |member: &&&str| {
            let mut others = own(members);
            others.retain(|other| other != **member);
            place(share, member, &others, &own(prefer)) == 0
        };
        let firsts: Vec<&&str> = members.iter().filter(is_first).collect();
        assert_eq!(firsts.len(), 1, "{share}");
        (*firsts[0]).to_owned()
    }

    #[test]
    fn shares_are_spread_evenly_and_move_only_to_who_comes() {
        let three = ["gw1", "gw2", "gw3"];
        let shares: Vec<String> = (0..256).map(|n| format!("s{n}")).collect();
        let of = |members: &[&str]| -> Vec<String> {
            shares.iter().map(|share| first(share, members, &[])).collect()
        };
        let before = of(&three);
        for member in three {
            let its = before.iter().filter(|owner| *owner == member).count();
            assert!((64..=107).contains(&its), "{member} has {its} of 256");
        }
        let after = of(&["gw1", "gw2", "gw3", "gw4"]);
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b);
        assert!(moved.clone().all(|(_, to)| to == "gw4"));
        assert!((40..=90).contains(&moved.count()));
    }

    #[test]
    fn who_is_preferred_comes_first() {
        for share in ["a", "b", "c", "d"] {
            assert_eq!(first(share, &["x", "y", "z"], &["z", "y"]), "z");
            assert_eq!(first(share, &["x", "y"], &["z", "y"]), "y");
        }
        assert_eq!((priority(0), priority(1), priority(300)), (255, 254, 1));
    }
}
