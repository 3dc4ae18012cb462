// Tests for SPECIFICATION.md: groups

use std::collections::BTreeSet;

use proptest::prelude::*;
use xoff_explore::explore;
use xoff_wire::units::Bytes;

use super::*;

const ALL: PathSet = PathSet(u64::MAX);

fn even(count: usize) -> WeightedPaths {
    WeightedPaths::new((0..count as u64).map(|name| (name, 1)))
}

fn all_of(weighted: &WeightedPaths) -> PathSet {
    (0..weighted.paths.len()).collect()
}

fn without(paths: PathSet, lost: usize) -> PathSet {
    paths.iter().filter(|&path| path != lost).collect()
}

fn shares(count: usize, choices: u64, mut choose: impl FnMut(u64) -> usize) -> Vec<u64> {
    let mut taken = vec![0; count];
    (0..choices).for_each(|n| taken[choose(n)] += 1);
    taken
}

fn some_paths() -> impl Strategy<Value = (WeightedPaths, PathSet)> {
    let paths = prop::collection::vec((any::<bool>(), 1..=WEIGHT_MAX), 1..=12);
    let usable = paths.prop_filter("no path is usable", |paths| paths.iter().any(|(usable, _)| *usable));
    usable.prop_map(|paths| {
        let weighted = WeightedPaths::new((0..).zip(&paths).map(|(name, (_, weight))| (name, *weight)));
        let usable = paths.iter().enumerate().filter(|(_, (usable, _))| *usable).map(|(path, _)| path);
        (weighted, usable.collect())
    })
}

explore! {
    #[test]
    fn spread_never_chooses_unusable_path((weighted, usable) in some_paths(), number: u64, place in 0_usize..1000) {
        let is_usable = |path: usize| usable.iter().any(|other| other == path);
        prop_assert!(is_usable(weighted.of_flow(number, usable).unwrap()));
        prop_assert!(is_usable(weighted.at_random(number, usable).unwrap()));
        prop_assert!(is_usable(weighted.in_turn(place, usable).unwrap().0));
        for chance in [0, u64::MAX] {
            prop_assert!(is_usable(weighted.at_random(chance, usable).unwrap()));
        }
    }

    #[test] // proves: group-changes
    fn loss_of_path_moves_only_flows_of_that_path((weighted, usable) in some_paths(), flows: [u64; 16], lost in 0_usize..12) {
        let left = without(usable, lost);
        for flow in flows {
            let before = weighted.of_flow(flow, usable);
            let after = weighted.of_flow(flow, left);
            prop_assert!(before == Some(lost) || after == before);
            prop_assert!(after != Some(lost));
        }
    }

    #[test] // proves: group-changes
    fn flows_follow_path_name_when_path_numbers_change(names: BTreeSet<u64>, added: u64, flow: u64, weight in 1..=WEIGHT_MAX) {
        let before: Vec<u64> = names.into_iter().filter(|name| *name != added).take(MEMBERS_MAX - 1).collect();
        prop_assume!(!before.is_empty());
        let after: Vec<u64> = [added].into_iter().chain(before.iter().rev().copied()).collect();
        let path_of = |names: &[u64]| {
            let weighted = WeightedPaths::new(names.iter().map(|name| (*name, weight)));
            names[weighted.of_flow(flow, all_of(&weighted)).unwrap()]
        };
        prop_assert!([path_of(&before), added].contains(&path_of(&after)));
    }

    #[test]
    fn round_robin_takes_paths_in_proportion_to_weights((weighted, usable) in some_paths(), start in 0_usize..1000) {
        let mut place = start % weighted.turns.len();
        let rounds = 3;
        let of_usable: u64 = weighted.turns.iter().filter(|path| usable.iter().any(|other| other == usize::from(**path))).count() as u64;
        let taken = shares(weighted.paths.len(), rounds * of_usable, |_| {
            let (path, next) = weighted.in_turn(place, usable).unwrap();
            place = next;
            path
        });
        for path in usable.iter() {
            let own = weighted.turns.iter().filter(|turn| usize::from(**turn) == path).count() as u64;
            prop_assert_eq!(taken[path], rounds * own);
        }
    }
}

#[test]
fn spread_by_flow_and_at_random_follows_path_weights() {
    const CHOICES: u64 = 60_000;
    for weights in [&[1, 1, 1, 1][..], &[1, 2, 3], &[10, 1], &[7; 9], &[1, 100]] {
        let weighted = WeightedPaths::new((0..).zip(weights).map(|(name, weight)| (name, *weight)));
        let all = all_of(&weighted);
        for usable in [all, without(all, 0)] {
            let sum: u64 = usable.iter().map(|path| u64::from(weights[path])).sum();
            let of_flows = shares(weights.len(), CHOICES, |n| weighted.of_flow(mix(n), usable).unwrap());
            let of_chance = shares(weights.len(), CHOICES, |n| weighted.at_random(mix(n), usable).unwrap());
            for (path, weight) in weights.iter().enumerate() {
                let is_usable = usable.iter().any(|other| other == path);
                let own = if is_usable { u64::from(*weight) } else { 0 };
                let due = CHOICES * own / sum;
                for taken in [of_flows[path], of_chance[path]] {
                    let bound = due / 10 + CHOICES / 500; // more than five standard deviations
                    assert!(
                        taken.abs_diff(due) <= bound,
                        "path was chosen {taken} times instead of {due} with weights {weights:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn switch_with_other_salt_spreads_flows_of_one_path_evenly() {
    let (weighted, salts) = (even(4), [11, 12]);
    let of = |flow: u64, salt: u64| weighted.of_flow(mix(mix(flow) ^ salt), all_of(&weighted)).unwrap();
    let on_one: Vec<u64> = (0..40_000).filter(|flow| of(*flow, salts[0]) == 2).collect();
    let taken = shares(4, on_one.len() as u64, |n| of(on_one[usize::try_from(n).unwrap()], salts[1]));
    assert!(taken.iter().all(|taken| taken.abs_diff(2_500) < 300), "{taken:?}");
}

#[test]
fn round_robin_spaces_turns_of_each_path_evenly() {
    let take = |weighted: &WeightedPaths, usable: PathSet, count: usize| -> Vec<usize> {
        let mut place = 0;
        let next = |_| {
            let (path, after) = weighted.in_turn(place, usable).unwrap();
            place = after;
            path
        };
        (0..count).map(next).collect()
    };
    assert_eq!(take(&even(3), ALL, 6), [0, 1, 2, 0, 1, 2]);
    assert_eq!(
        take(&even(3), without(PathSet(0b111), 1), 4),
        [0, 2, 0, 2],
        "round robin with a lost path is not evenly spaced"
    );
    let weighted = WeightedPaths::new([(1, 10), (2, 5), (3, 5)]);
    assert_eq!(
        take(&weighted, ALL, 8),
        [0, 1, 2, 0, 0, 1, 2, 0],
        "weights were not divided by their common divisor"
    );
}

#[test]
fn spread_chooses_no_path_if_none_is_usable() {
    let weighted = even(2);
    assert_eq!(weighted.of_flow(1, PathSet::NONE), None);
    assert_eq!(weighted.at_random(1, PathSet::NONE), None);
    assert_eq!(weighted.in_turn(1, PathSet::NONE), None);
    assert!(shortest(PathSet::NONE, Bytes(1), Bytes(2), |_| Bytes(0)).is_empty());
}

#[test]
fn shortest_queue_spread_prefers_paths_below_low_mark() {
    let of = |waiting: [u64; 3]| -> Vec<usize> {
        shortest(PathSet(0b111), Bytes(16_000), Bytes(32_000), |path| Bytes(waiting[path])).iter().collect()
    };
    assert_eq!(of([15_999, 16_000, 15_999]), [0, 2]);
    assert_eq!(of([16_000, 16_000, 32_000]), [0, 1], "paths below `high` not preferred");
    assert_eq!(of([31_999, 32_000, 32_000]), [0]);
    assert_eq!(of([32_000, 32_000, 40_000]), [0, 1, 2], "usable paths missing although none is below `high`");
    let usable = shortest(PathSet(0b110), Bytes(16_000), Bytes(32_000), |_| Bytes(0));
    assert_eq!(usable.iter().collect::<Vec<_>>(), [1, 2], "unusable path chosen");
}
