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
/// for every variant. Which variant comes first (A B or B A) is drawn for every group of every block:
/// that is what makes the comparison's test exact, whatever the machine does from trial to trial
/// (Fisher, *The Design of Experiments*, 1935); strict alternation would not.
pub fn of_block(groups: &[Group], random: &mut ChaCha8Rng) -> Vec<usize> {
    let mut shuffled: Vec<Group> = groups.to_vec();
    shuffled.shuffle(random);
    let mut order = Vec::new();
    for mut loads in shuffled {
        loads.shuffle(random);
        let mut turns: Vec<usize> = (0..loads.first().map_or(0, Vec::len)).collect();
        turns.shuffle(random);
        for turn in turns {
            order.extend(loads.iter().filter_map(|load| load.get(turn)));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn each_variant_comes_first_about_as_often() {
        let groups = [vec![vec![0, 1, 2]], vec![vec![3, 4, 5]]];
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut firsts = [0; 3];
        for _ in 0..300 {
            let order = of_block(&groups, &mut random);
            assert_eq!(order.len(), 6);
            firsts[order[0] % 3] += 1;
        }
        assert!(firsts.iter().all(|&count| (70..130).contains(&count)), "{firsts:?}");
    }
}
