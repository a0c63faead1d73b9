//! Files of every kind, whole and damaged.

use super::*;
use crate::prng::Prng;

/// A word in either order.
fn w(swapped: bool, value: u32) -> [u8; 4] {
    if swapped { value.swap_bytes().to_ne_bytes() } else { value.to_ne_bytes() }
}

fn h(swapped: bool, value: u16) -> [u8; 2] {
    if swapped { value.swap_bytes().to_ne_bytes() } else { value.to_ne_bytes() }
}

fn pcap_file(swapped: bool, magic: u32, records: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut file = w(swapped, magic).to_vec();
    file.extend(h(swapped, 2));
    file.extend(h(swapped, 4));
    for word in [0, 0, 65_535, 1] {
        file.extend(w(swapped, word));
    }
    for (seconds, fraction, data) in records {
        for word in [*seconds, *fraction, data.len() as u32, data.len() as u32] {
            file.extend(w(swapped, word));
        }
        file.extend(*data);
    }
    file
}

fn block(swapped: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = w(swapped, body.len() as u32 + 12);
    [&w(swapped, kind), &len, body.as_slice(), &len].concat()
}

fn section(swapped: bool) -> Vec<u8> {
    let mut body = w(swapped, 0x1a2b_3c4d).to_vec();
    body.extend(h(swapped, 1));
    body.extend(h(swapped, 0));
    body.extend([0xff; 8]);
    block(swapped, 0x0a0d_0d0a, &body)
}

fn interface(swapped: bool, resolution: Option<u8>) -> Vec<u8> {
    let mut body = h(swapped, 1).to_vec();
    body.extend([0, 0]);
    body.extend(w(swapped, 0));
    if let Some(resolution) = resolution {
        body.extend(h(swapped, 9));
        body.extend(h(swapped, 1));
        body.extend([resolution, 0, 0, 0]);
        body.extend([0; 4]);
    }
    block(swapped, 1, &body)
}

fn enhanced(swapped: bool, interface: u32, units: u64, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    let mut body = Vec::new();
    for word in [interface, (units >> 32) as u32, units as u32, len, len] {
        body.extend(w(swapped, word));
    }
    body.extend(data);
    block(swapped, 6, &body)
}

fn read_all(file: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, PcapError> {
    let mut reader = Reader::new(file)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push((record.ns, record.data.to_vec()));
    }
    Ok(records)
}

#[test]
fn reads_pcap_in_both_orders_and_resolutions() {
    for swapped in [false, true] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let file = pcap_file(swapped, magic, &[(7, 3, &[1; 60]), (8, 0, &[])]);
            let wanted = [(7_000_000_000 + 3 * unit, vec![1; 60]), (8_000_000_000, Vec::new())];
            assert_eq!(read_all(&file).unwrap(), wanted);
        }
    }
}

#[test]
fn reads_pcapng_with_sections_of_either_order() {
    let mut file = Vec::new();
    let mut wanted = Vec::new();
    for swapped in [false, true] {
        file.extend(section(swapped));
        file.extend(interface(swapped, None));
        file.extend(interface(swapped, Some(9)));
        file.extend(interface(swapped, Some(0x80 | 10)));
        file.extend(block(swapped, 5, &[9; 17]));
        file.extend(enhanced(swapped, 0, 1_000_001, &[1; 61]));
        file.extend(enhanced(swapped, 1, 5 << 32, &[2; 62]));
        file.extend(enhanced(swapped, 2, 2048, &[3; 63]));
        wanted.push((1_000_001_000, vec![1; 61]));
        wanted.push((5 << 32, vec![2; 62]));
        wanted.push((2_000_000_000, vec![3; 63]));
        let mut simple = w(swapped, 5).to_vec();
        simple.extend([4; 8]);
        file.extend(block(swapped, 3, &simple));
        wanted.push((0, vec![4; 5]));
    }
    assert_eq!(read_all(&file).unwrap(), wanted);
}

#[test]
fn says_what_is_wrong_and_where() {
    let text = |file: &[u8]| read_all(file).unwrap_err().to_string();
    assert_eq!(
        text(&[1, 2, 3, 4]),
        "begins with 0x04030201, which is neither pcap (0xa1b2c3d4, 0xa1b23c4d) nor pcapng \
         (0x0a0d0d0a)"
    );
    assert_eq!(text(&[]), "at byte 0: ends in the middle of the file's header");
    let good = pcap_file(false, 0xa1b2_c3d4, &[(0, 0, &[1; 60])]);
    assert_eq!(text(&good[..39]), "at byte 24: ends in the middle of a record's header");
    assert_eq!(text(&good[..99]), "at byte 40: ends in the middle of a record");
    let mut long = good.clone();
    long[32..36].copy_from_slice(&0x1000_0000u32.to_ne_bytes());
    assert_eq!(text(&long), "at byte 32: a record of 268435456 bytes, wanted at most 262144");
    let mut wifi = good;
    wifi[20..24].copy_from_slice(&105u32.to_ne_bytes());
    assert_eq!(text(&wifi), "at byte 20: link type 105, wanted 1 (Ethernet)");
    let orphan = [section(false), enhanced(false, 3, 0, &[0; 60])].concat();
    assert_eq!(text(&orphan), "at byte 28: a packet of interface 3, but 0 are described");
    let mut torn = [section(false), interface(false, None)].concat();
    let last = torn.len() - 4;
    torn[last] ^= 4;
    assert_eq!(
        text(&torn),
        "at byte 44: a block of 16 bytes, wanted the same length as at its start"
    );
}

#[test]
fn repeats_its_error() {
    let file = pcap_file(false, 0xa1b2_c3d4, &[(0, 0, &[1; 60])]);
    let mut reader = Reader::new(&file[..50]).unwrap();
    let first = reader.next_record().unwrap_err();
    assert_eq!(reader.next_record().unwrap_err(), first);
}

#[test]
fn survives_damage_anywhere() {
    let mut random = Prng::new(5);
    let mut ng = [section(true), interface(true, Some(6))].concat();
    ng.extend(enhanced(true, 0, 77, &[5; 100]));
    ng.extend(enhanced(true, 0, 78, &[6; 30]));
    let plain = pcap_file(false, 0xa1b2_3c4d, &[(1, 2, &[1; 60]), (3, 4, &[2; 99])]);
    for whole in [ng, plain] {
        for len in 0..=whole.len() {
            fuzz(&whole[..len]);
        }
        for _ in 0..20_000 {
            let mut file = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(file.len() as u64) as usize;
                file[at] = match random.below(3) {
                    0 => random.next_u64() as u8,
                    1 => 0xff,
                    _ => file[at] ^ (1 << random.below(8)),
                };
            }
            fuzz(&file);
        }
    }
}

#[test]
fn a_port_reads_writes_and_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    std::fs::write(&from, pcap_file(true, 0xa1b2_c3d4, &[(1, 0, &[1; 60]), (2, 0, &[2; 60])]))
        .unwrap();
    let mut port = Pcap::open("p", Some(&from), Some(&to), false).unwrap();
    let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue().unwrap());
    assert!(matches!(port.rx_queue(0), Err(Error::Busy { .. })));
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    assert_eq!(rx.rx(&mut burst, &mut pool).unwrap(), 2);
    assert!(matches!(rx.rx(&mut burst, &mut pool), Err(RxError::Ended)));
    for frame in burst.drain() {
        tx.tx_owned(frame, &mut pool).unwrap();
    }
    assert_eq!((tx.flush().sent, tx.flush().sent), (2, 0));
    let written = read_all(&std::fs::read(&to).unwrap()).unwrap();
    assert_eq!(written.iter().map(|r| r.1[0]).collect::<Vec<_>>(), [1, 2]);
    assert!(written.iter().all(|r| r.0 > 1_600_000_000_000_000_000));

    let mut port = Pcap::open("p", Some(&from), None, true).unwrap();
    let mut rx = port.rx_queue(0).unwrap();
    for _ in 0..100 {
        assert_eq!(rx.rx(&mut burst, &mut pool).unwrap(), 2);
        assert_eq!(burst.frames()[1].rx_ns, 2_000_000_000);
        burst.recycle(&mut pool);
    }
    std::fs::write(&from, pcap_file(false, 0xa1b2_c3d4, &[])).unwrap();
    let mut rx = Pcap::open("p", Some(&from), None, true).unwrap().rx_queue(0).unwrap();
    assert!(matches!(rx.rx(&mut burst, &mut pool), Err(RxError::Ended)));
    let missing = Pcap::open("p", Some(&folder.path().join("none")), None, false);
    assert!(missing.err().unwrap().to_string().contains("opening the file failed"));
}

#[test]
fn frames_before_an_error_are_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("torn.pcap");
    let file = pcap_file(false, 0xa1b2_c3d4, &[(1, 0, &[1; 60]), (2, 0, &[2; 60])]);
    std::fs::write(&path, &file[..file.len() - 1]).unwrap();
    let mut rx = Pcap::open("p", Some(&path), None, true).unwrap().rx_queue(0).unwrap();
    let (mut burst, mut pool) = (Burst::new(), Pool::new());
    assert_eq!(rx.rx(&mut burst, &mut pool).unwrap(), 1);
    assert!(matches!(rx.rx(&mut burst, &mut pool), Err(RxError::Pcap(_))));
    assert!(matches!(rx.rx(&mut burst, &mut pool), Err(RxError::Pcap(_))));
}
