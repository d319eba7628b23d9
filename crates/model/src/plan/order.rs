//! The order in which the cells of a block are measured.

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::Cell;

/// Cells that are measured one after the other: for every load, the variants of its cell.
pub type Group = Vec<Vec<usize>>;

/// What is shuffled as one. The variants of a cell always stay together; with `keep` so do all loads
/// that one testbed serves: a split-plot order, as a guest is costly to make ready.
pub fn groups(cells: &[Cell], keep: bool) -> Vec<Group> {
    let mut loads: Vec<Vec<usize>> = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let id = cell.id_of_all_variants();
        match loads.iter_mut().find(|load| cells[load[0]].id_of_all_variants() == id) {
            Some(load) => load.push(index),
            None => loads.push(vec![index]),
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for load in loads {
        let shares =
            |group: &&mut Group| keep && cells[group[0][0]].shares_testbed_with(&cells[load[0]]);
        match groups.iter_mut().find(shares) {
            Some(group) => group.push(load),
            None => groups.push(vec![load]),
        }
    }
    groups
}

/// The order of a block. The groups are in random order, and so are the loads inside each, the same
/// for every variant. Which variant comes first alternates from block to block (A B, B A), and half
/// of the groups begin with the other: what the machine does to the second of two cancels out.
pub fn of_block(groups: &[Group], block: usize, random: &mut ChaCha8Rng) -> Vec<usize> {
    let mut shuffled: Vec<(usize, Group)> = groups.iter().cloned().enumerate().collect();
    shuffled.shuffle(random);
    let mut order = Vec::new();
    for (number, mut loads) in shuffled {
        loads.shuffle(random);
        let variants = loads.first().map_or(0, Vec::len);
        for turn in turns(variants, block + number) {
            order.extend(loads.iter().filter_map(|load| load.get(turn)));
        }
    }
    order
}

/// The order of `n` variants in the round of that number: each begins in turn, then the same
/// backwards, so that none always follows the same other.
fn turns(n: usize, round: usize) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..n).collect();
    turns.rotate_left(round.checked_rem(n).unwrap_or(0));
    if n > 2 && round.checked_div(n).is_some_and(|cycle| cycle % 2 == 1) {
        turns.reverse();
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_two_variants_each_come_first_equally_often() {
        let firsts: Vec<usize> = (0..6).map(|round| turns(3, round)[0]).collect();
        let count = |of: usize| firsts.iter().filter(|first| **first == of).count();
        assert_eq!([count(0), count(1), count(2)], [2, 2, 2]);
        assert_eq!((turns(1, 3), turns(0, 3)), (vec![0], vec![]));
    }
}
