//! The part of a host's GPUs that an outer scheduler has granted to this process.

/// The variables that grant GPUs, in the order in which they count. The drivers obey the first three;
/// Slurm's own number the cards of the whole host.
const GRANTS: [&str; 5] = [
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
];

/// The devices of these that were granted; all of them if nothing was said.
pub(super) fn restrict(
    found: Vec<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut grants = GRANTS.into_iter();
    let Some((name, grant)) = grants.find_map(|name| Some((name, variable(name)?))) else {
        return found;
    };
    let words = grant.split(',').map(str::trim);
    let words = words.filter(|word| !word.is_empty());
    // Where a control group hides the other cards, the ones that are left are numbered anew.
    if name.starts_with("SLURM_") && words.clone().count() >= found.len() {
        return found;
    }
    let mut granted: Vec<String> = Vec::new();
    for word in words {
        // The drivers ignore what follows a word that names no device, such as -1 or NoDevFiles.
        let Some(id) = find(&found, word) else {
            break;
        };
        if !granted.contains(id) {
            granted.push(id.clone());
        }
    }
    granted
}

/// The device with this index, or with this UUID or the beginning of it.
fn find<'a>(found: &'a [String], word: &str) -> Option<&'a String> {
    if let Ok(index) = word.parse::<usize>() {
        return found.get(index);
    }
    let mut matching = found.iter().filter(|id| id.starts_with(word));
    let first = matching.next()?;
    matching.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restricted(set: &[(&str, &str)]) -> String {
        let found = ["GPU-a1", "GPU-a2", "GPU-b3"].map(str::to_owned).to_vec();
        let variable = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        restrict(found, variable).join(",")
    }

    #[test]
    fn indices_and_uuids_are_granted_in_their_order() {
        assert_eq!(restricted(&[]), "GPU-a1,GPU-a2,GPU-b3");
        for (grant, expected) in [
            ("0,2", "GPU-a1,GPU-b3"),
            ("2, 0", "GPU-b3,GPU-a1"),
            ("GPU-a2", "GPU-a2"),
            ("GPU-b,0,0", "GPU-b3,GPU-a1"),
            ("", ""),
            ("-1", ""),
            ("1,-1,2", "GPU-a2"),
            ("7", ""),
            ("GPU-a", ""),
            ("NoDevFiles", ""),
        ] {
            assert_eq!(
                restricted(&[("CUDA_VISIBLE_DEVICES", grant)]),
                expected,
                "{grant}"
            );
        }
    }

    #[test]
    fn what_the_drivers_obey_counts_before_what_slurm_says() {
        let slurm = ("SLURM_JOB_GPUS", "1");
        assert_eq!(restricted(&[slurm]), "GPU-a2");
        assert_eq!(restricted(&[slurm, ("SLURM_STEP_GPUS", "2")]), "GPU-b3");
        assert_eq!(
            restricted(&[slurm, ("ROCR_VISIBLE_DEVICES", "0")]),
            "GPU-a1"
        );
        assert_eq!(restricted(&[slurm, ("GPU_DEVICE_ORDINAL", "")]), "");
        let numbered = ("SLURM_JOB_GPUS", "4,5,6");
        assert_eq!(restricted(&[numbered]), "GPU-a1,GPU-a2,GPU-b3");
    }
}
