//! The arithmetic of a translation.

mod cases;

use cases::segment::{ACK, Ip, Segment, is_whole, sack, timestamps};
use cases::{cases, from_client, to_client, to_server};
use proptest::prelude::*;
use tributary_offload::{Action, Incompatible, Leg, Timestamps, Translation};

const VERSIONS: [Ip; 2] = [Ip::V4, Ip::V6];

#[test]
fn every_packet_of_the_table_becomes_what_it_should() {
    for mut case in cases() {
        let name = format!("{:?}: {}", case.ip, case.name);
        assert_eq!(case.translation.apply(&mut case.packet), case.action, "{name}");
        assert_eq!(case.packet, case.result, "{name}");
    }
}

#[test]
fn a_packet_cut_anywhere_is_left_alone_or_refused_and_as_it_was() {
    for ip in VERSIONS {
        let packet = from_client(ip).encode();
        for length in 0..packet.len() {
            let mut cut = packet[..length].to_vec();
            let action = cases::upward(ip).apply(&mut cut);
            assert_ne!(action, Action::Redirect, "{length} bytes");
            assert_eq!(cut, packet[..length]);
        }
    }
}

#[test]
fn legs_that_agreed_on_different_things_do_not_fit() {
    let with = |change: &dyn Fn(&mut Leg)| {
        let mut leg = to_server(Ip::V4);
        change(&mut leg);
        leg
    };
    for (other, why) in [
        (to_server(Ip::V6), Incompatible::Versions),
        (with(&|leg| leg.sack = false), Incompatible::Sack),
        (with(&|leg| leg.timestamps = None), Incompatible::Timestamps),
        (with(&|leg| leg.mss_out = 1459), Incompatible::Mss),
        (with(&|leg| leg.mss_in = 1461), Incompatible::Mss),
    ] {
        assert_eq!(Translation::between(&to_client(Ip::V4), &other), Err(why));
        assert_eq!(Translation::between(&other, &to_client(Ip::V4)), Err(why));
    }
}

prop_compose! {
    fn legs(ip: Ip)(
        numbers in any::<[u32; 8]>(),
        clocks in any::<bool>(),
        scales in prop::array::uniform4(0..=14_u8),
    ) -> (Leg, Leg) {
        let [a, b, c, d, e, f, g, h] = numbers;
        let clock = |ours, theirs| clocks.then_some(Timestamps { ours, theirs });
        let [in_a, out_a, in_b, out_b] = scales;
        let client = Leg {
            snd_nxt: a, rcv_nxt: b, timestamps: clock(e, f), snd_scale: in_a, rcv_scale: out_a, ..to_client(ip)
        };
        let server = Leg {
            snd_nxt: c, rcv_nxt: d, timestamps: clock(g, h), snd_scale: in_b, rcv_scale: out_b, ..to_server(ip)
        };
        (client, server)
    }
}

prop_compose! {
    fn segments(ip: Ip)(
        numbers in any::<[u32; 4]>(),
        flags in any::<u8>(),
        window in any::<u16>(),
        blocks in prop::collection::vec(any::<(u32, u32)>(), 1..=3),
        odd in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 0..40),
    ) -> Segment {
        let [seq, ack, tsval, tsecr] = numbers;
        let mut options = [timestamps(tsval, tsecr), sack(&blocks)].concat();
        if odd {
            options.remove(0);
            options.push(0);
        }
        Segment { seq, ack, flags, window, options, payload, ..from_client(ip) }
    }
}

fn versions() -> impl Strategy<Value = Ip> {
    prop::sample::select(&VERSIONS)
}

prop_compose! {
    /// Two legs, and a segment that comes by the first one.
    fn relayed()(ip in versions())(legs in legs(ip), segment in segments(ip)) -> (Leg, Leg, Segment) {
        (legs.0, legs.1, segment)
    }
}

/// What goes back by the way that `translation` came.
fn reversed(translation: &Translation) -> Translation {
    Translation {
        from: translation.to,
        to: translation.from,
        sequence: translation.sequence.wrapping_neg(),
        acknowledgement: translation.acknowledgement.wrapping_neg(),
        tsval: translation.tsval.wrapping_neg(),
        tsecr: translation.tsecr.wrapping_neg(),
        scale_in: translation.scale_out,
        scale_out: translation.scale_in,
        sender: None,
    }
}

proptest! {
    #[test]
    fn checksums_are_right_afterwards((a, b, segment) in relayed()) {
        let [up, _] = Translation::between(&a, &b).expect("they fit");
        let mut packet = segment.encode();
        prop_assert_eq!(up.apply(&mut packet), Action::Redirect);
        prop_assert!(is_whole(&packet));
    }

    #[test]
    fn a_wrong_checksum_stays_wrong((a, b, segment) in relayed(), bit in 0..8_u32) {
        let [up, _] = Translation::between(&a, &b).expect("they fit");
        let mut packet = segment.encode();
        let at = packet.len() - segment.payload.len() - segment.options.len() - 4;
        packet[at] ^= 1_u8 << bit;
        up.apply(&mut packet);
        prop_assert!(!is_whole(&packet));
    }

    #[test]
    fn there_and_back_gives_the_original((a, b, segment) in relayed()) {
        let [up, _] = Translation::between(&a, &b).expect("they fit");
        let up = Translation { scale_in: up.scale_out, ..up };
        let mut packet = segment.encode();
        up.apply(&mut packet);
        reversed(&up).apply(&mut packet);
        prop_assert_eq!(packet, Segment { ttl: 62, ..segment }.encode());
    }

    #[test]
    fn a_byte_that_is_sent_is_the_one_that_is_acknowledged((a, b) in legs(Ip::V4), ahead in any::<u32>()) {
        let [up, down] = Translation::between(&a, &b).expect("they fit");
        let seq = a.rcv_nxt.wrapping_add(ahead);
        let acknowledged = seq.wrapping_add(up.sequence);
        prop_assert_eq!(acknowledged.wrapping_sub(b.snd_nxt), ahead);
        prop_assert_eq!(acknowledged.wrapping_add(down.acknowledgement), seq);
        prop_assert_eq!(up.tsval.wrapping_add(down.tsecr), 0);
        prop_assert_eq!(down.tsval.wrapping_add(up.tsecr), 0);
    }

    #[test]
    fn no_more_is_offered_than_was((a, b, segment) in relayed()) {
        let [up, _] = Translation::between(&a, &b).expect("they fit");
        let mut packet = Segment { flags: ACK, options: vec![], payload: vec![], ..segment }.encode();
        up.apply(&mut packet);
        let [.., high, low, _, _, _, _] = packet[..] else { panic!("a segment") };
        let field = u16::from_be_bytes([high, low]);
        let offered = u32::from(segment.window) << a.snd_scale;
        let unit = 1_u32 << b.rcv_scale;
        prop_assert!(u32::from(field) * unit <= offered);
        prop_assert!(field == u16::MAX || offered - u32::from(field) * unit < unit);
    }

    #[test]
    fn any_bytes_have_an_outcome(
        (a, b, segment) in relayed(),
        options in prop::collection::vec(prop_oneof![0..11_u8, any::<u8>()], 40),
        change in any::<(prop::sample::Index, u8)>(),
    ) {
        let [up, _] = Translation::between(&a, &b).expect("they fit");
        let mut packet = Segment { options, ..segment }.encode();
        let at = change.0.index(packet.len());
        packet[at] = change.1;
        let before = packet.clone();
        if up.apply(&mut packet) != Action::Redirect {
            prop_assert_eq!(packet, before);
        }
    }
}
