//! Get: a notification for each path.

use crate::fault::{Fault, extensions, fault, listed};
use crate::interface::Snapshot;
use crate::path::{Frame, resolve};
use crate::proto::get_request::DataType;
use crate::proto::{GetRequest, GetResponse, Notification, Path, Update};
use crate::schema::{ABOVE, Filter, LEAVES};
use crate::tree::{Style, chosen};
use crate::value::Written;

/// Paths of a request, at most.
pub const PATHS_MAX: usize = 1024;
/// Leaves of an answer, at most.
const LEAVES_MAX: usize = 1 << 20;

/// Answers a request by what there was at one moment.
pub fn get(request: &GetRequest, snapshot: &Snapshot) -> Result<GetResponse, Fault> {
    extensions(&request.extension)?;
    let written = Written::asked(request.encoding)?;
    let filter = Filter::new(request.r#type, &request.use_models)?;
    if request.path.len() > PATHS_MAX {
        let n = request.path.len();
        return Err(fault!(ResourceExhausted, "{n} paths; a request may have {PATHS_MAX}"));
    }
    let prefix = request.prefix.as_ref();
    let frame = Frame::of(prefix);
    // Without a path it is the prefix that is asked for.
    let whole = [Path::default()];
    let paths = if request.path.is_empty() { &whole[..] } else { &request.path };
    let (mut notification, mut left) = (Vec::new(), LEAVES_MAX);
    for path in paths {
        let style = Style { frame: &frame, origin: &path.origin, written };
        let update = of_path(prefix, path, style, &filter, snapshot, &mut left)?;
        notification.push(Notification {
            timestamp: snapshot.at_ns,
            prefix: frame.prefix.clone(),
            update,
            ..Notification::default()
        });
    }
    Ok(GetResponse { notification, ..GetResponse::default() })
}

fn of_path(
    prefix: Option<&Path>,
    path: &Path,
    style: Style<'_>,
    filter: &Filter,
    snapshot: &Snapshot,
    left: &mut usize,
) -> Result<Vec<Update>, Fault> {
    let selection = resolve(prefix, path)?;
    let interfaces = chosen(&selection, &snapshot.interfaces);
    if let (Some(name), true) = (&selection.interface, interfaces.is_empty()) {
        let names = listed(snapshot.interfaces.iter().map(|i| &*i.name));
        return Err(fault!(
            NotFound,
            "path element {}: there is no interface {name:?}; there are {names}",
            ABOVE.len()
        ));
    }
    let leaves = selection.leaves().count() * interfaces.len();
    *left = left.checked_sub(leaves).ok_or_else(|| {
        fault!(ResourceExhausted, "the answer has more than {LEAVES_MAX} leaves; ask for less")
    })?;
    // The configuration as a whole is one document, in whatever encoding.
    let document =
        filter.data() == DataType::Config && selection.nodes.iter().any(|n| n.depth() == 0);
    if style.written == Written::Proto && !document {
        let rows: Vec<usize> = selection.leaves().filter(|row| filter.has(&LEAVES[*row])).collect();
        let of = |i| rows.iter().map(move |row| style.leaf(*row, i));
        return Ok(interfaces.iter().copied().flat_map(of).collect());
    }
    let mut updates = Vec::new();
    for node in &selection.nodes {
        if node.is_leaf() && !filter.has(&LEAVES[node.leaves.start]) {
            continue;
        }
        match node.depth() >= ABOVE.len() {
            true => updates.extend(interfaces.iter().map(|i| style.node(node, &[i], filter))),
            false => updates.push(style.node(node, &interfaces, filter)),
        }
    }
    Ok(updates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::tests::path;
    use crate::path::text;
    use crate::proto::typed_value::Value as Typed;
    use crate::proto::{Encoding, TypedValue};
    use crate::tree::tests::interface;
    use tonic::Code;

    fn snapshot() -> Snapshot {
        Snapshot { at_ns: 77, interfaces: vec![interface(1), interface(2)] }
    }

    fn asked(paths: &[&str], encoding: Encoding) -> GetRequest {
        let path = paths.iter().map(|text| path(text)).collect();
        GetRequest { path, encoding: encoding as i32, ..GetRequest::default() }
    }

    fn values(response: &GetResponse) -> Vec<(String, Typed)> {
        let updates = response.notification.iter().flat_map(|n| &n.update);
        let value = |v: &Option<TypedValue>| v.clone().unwrap().value.unwrap();
        updates.map(|u| (text(u.path.as_ref().unwrap()), value(&u.val))).collect()
    }

    #[test]
    fn each_path_has_a_notification() {
        let status = "/interfaces/interface/state/oper-status";
        let response =
            get(&asked(&[status, "/.../in-octets"], Encoding::Proto), &snapshot()).unwrap();
        assert_eq!(response.notification.len(), 2);
        assert!(response.notification.iter().all(|n| n.timestamp == 77 && n.prefix.is_none()));
        let of = |n: u8, leaf: &str| format!("/interfaces/interface[name=p{n}]/state/{leaf}");
        let expected = [
            (of(1, "oper-status"), Typed::StringVal("UP".into())),
            (of(2, "oper-status"), Typed::StringVal("DOWN".into())),
            (of(1, "counters/in-octets"), Typed::UintVal(100)),
            (of(2, "counters/in-octets"), Typed::UintVal(100)),
        ];
        assert_eq!(values(&response), expected);
        // In JSON an interface is an update, unless the path is above interfaces.
        let json = get(&asked(&["/interfaces/interface"], Encoding::Json), &snapshot()).unwrap();
        let paths: Vec<String> = values(&json).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["/interfaces/interface[name=p1]", "/interfaces/interface[name=p2]"]);
        let json = get(&asked(&["/interfaces"], Encoding::Json), &snapshot()).unwrap();
        assert_eq!(values(&json).len(), 1);
    }

    #[test]
    fn the_prefix_is_told_back() {
        let mut request = asked(&["state/id"], Encoding::Proto);
        let prefix = Path { target: "s1".into(), ..path("/interfaces/interface[name=p2]") };
        request.prefix = Some(prefix.clone());
        let response = get(&request, &snapshot()).unwrap();
        assert_eq!(response.notification[0].prefix, Some(prefix));
        assert_eq!(values(&response), [("/state/id".to_owned(), Typed::UintVal(2))]);
        // The prefix alone may be all of the path.
        request.path.clear();
        assert!(values(&get(&request, &snapshot()).unwrap()).len() > 10);
    }

    #[test]
    fn the_configuration_is_one_document() {
        let mut request = asked(&["/"], Encoding::Proto);
        let all = values(&get(&request, &snapshot()).unwrap());
        assert_eq!(all.len(), 2 * LEAVES.len());
        request.r#type = DataType::Config as i32;
        let [(path, Typed::JsonIetfVal(bytes))] = &values(&get(&request, &snapshot()).unwrap())[..]
        else {
            panic!("one update")
        };
        let json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        let list = &json["openconfig-interfaces:interfaces"]["interface"];
        assert_eq!((&**path, &list[1]["config"]["name"]), ("/", &"p2".into()));
        assert!(list[0].get("state").is_none());
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let refused = |request: &GetRequest| get(request, &snapshot()).unwrap_err();
        let gone = refused(&asked(&["/interfaces/interface[name=p9]/state"], Encoding::Proto));
        assert_eq!(gone.code, Code::NotFound);
        assert_eq!(gone.text, "path element 2: there is no interface \"p9\"; there are p1, p2");
        assert_eq!(refused(&asked(&["/"], Encoding::Bytes)).code, Code::Unimplemented);
        let many = vec!["/"; PATHS_MAX + 1];
        assert_eq!(refused(&asked(&many, Encoding::Json)).code, Code::ResourceExhausted);
        // None of many is no error.
        let none = Snapshot::default();
        let response = get(&asked(&["/interfaces/interface"], Encoding::Json), &none).unwrap();
        assert_eq!((response.notification.len(), values(&response).len()), (1, 0));
    }
}
