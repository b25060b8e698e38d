//! The formats in which drivers list their devices.

/// Devices in the output of `nvidia-smi -L`. A card that is divided (MIG) is represented by its
/// parts: no process can use it as a whole.
pub(super) fn nvidia_list(text: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let mut card = None;
    for line in text.lines() {
        let id = line
            .split_once("(UUID: ")
            .and_then(|(_, rest)| rest.split(')').next());
        let Some(id) = id.map(str::trim).filter(|id| is_id(id)) else {
            continue;
        };
        if line.starts_with("GPU ") {
            card = Some(ids.len());
            ids.push(id.to_owned());
        } else if line.trim_start().starts_with("MIG ") {
            if let Some(at) = card.take() {
                ids.truncate(at);
            }
            ids.push(id.to_owned());
        }
    }
    ids
}

/// Devices in the files `information` below `/proc/driver/nvidia/gpus`, ordered by their bus. The
/// driver shows no UUID before a card was used; then the number of its device file counts.
pub(super) fn nvidia_cards<'a>(files: impl Iterator<Item = &'a str>) -> Vec<String> {
    files
        .filter_map(|text| {
            let value = |key: &str| {
                let mut lines = text.lines().filter_map(|line| line.split_once(':'));
                let found = lines.find(|(name, _)| name.trim() == key);
                found.map(|(_, value)| value.trim())
            };
            if value("GPU Excluded") == Some("Yes") {
                return None;
            }
            let uuid = value("GPU UUID").filter(|id| is_id(id));
            uuid.or_else(|| value("Device Minor").filter(|id| is_id(id)))
                .map(str::to_owned)
        })
        .collect()
}

/// AMD's devices in the files `properties` of the nodes of its topology; processors are nodes, too.
/// A card without a unique id is known by its index.
pub(super) fn kfd_nodes<'a>(files: impl Iterator<Item = &'a str>) -> Vec<String> {
    let value = |text: &str, key: &str| -> u64 {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(name, _)| *name == key);
        found
            .and_then(|(_, value)| value.trim().parse().ok())
            .unwrap_or(0)
    };
    files
        .filter(|text| value(text, "simd_count") > 0)
        .enumerate()
        .map(|(index, text)| match value(text, "unique_id") {
            0 => index.to_string(),
            id => format!("GPU-{id:016x}"),
        })
        .collect()
}

/// True for a word that may stand in a list with commas.
fn is_id(id: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '/');
    !id.is_empty() && id.len() <= 100 && id.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As one machine with an H200 printed it.
    const H200: &str = "GPU 0: NVIDIA H200 (UUID: GPU-b38d79a8-e875-0d9c-1b5e-21c130d47b40)\n";
    const MIG: &str = "\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 2g.10gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-0b1b1cbb-6b2c-4a3d-8c0e-0f4e1e4f9d11)
";
    const INFORMATION: &str = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\n\
        GPU UUID: \t GPU-b38d79a8-e875-0d9c-1b5e-21c130d47b40\nVideo BIOS: \t 96.00.a5.00.1a\n\
        Bus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n\
        Bus Location: \t 0000:00:06.0\nDevice Minor: \t 0\nGPU Firmware: \t 580.159.04\n\
        GPU Excluded:\t No\n";

    #[test]
    fn lists_of_the_tool_name_cards_and_their_parts() {
        assert_eq!(
            nvidia_list(H200),
            ["GPU-b38d79a8-e875-0d9c-1b5e-21c130d47b40"]
        );
        assert_eq!(
            nvidia_list(MIG),
            [
                "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f",
                "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb",
                "GPU-0b1b1cbb-6b2c-4a3d-8c0e-0f4e1e4f9d11",
            ]
        );
        for text in [
            "",
            "No devices were found\n",
            "GPU 0: x (UUID: a,b)\n",
            "GPU 0: (UUID: \n",
        ] {
            assert!(nvidia_list(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn files_of_cards_name_them_by_uuid_or_number() {
        let unused = INFORMATION
            .replace(
                "GPU-b38d79a8-e875-0d9c-1b5e-21c130d47b40",
                "GPU-????????-????",
            )
            .replace("Minor: \t 0", "Minor: \t 3");
        let excluded = INFORMATION.replace("Excluded:\t No", "Excluded:\t Yes");
        let files = [INFORMATION, &unused, &excluded, "", "garbage"];
        assert_eq!(
            nvidia_cards(files.into_iter()),
            ["GPU-b38d79a8-e875-0d9c-1b5e-21c130d47b40", "3"]
        );
    }

    #[test]
    fn processors_are_no_devices_of_the_topology() {
        let cpu = "cpu_cores_count 64\nsimd_count 0\nunique_id 0\n";
        let gpu =
            "cpu_cores_count 0\nsimd_count 416\nvendor_id 4098\nunique_id 9386661134531134571\n";
        let old = "cpu_cores_count 0\nsimd_count 256\nvendor_id 4098\n";
        assert_eq!(
            kfd_nodes([cpu, gpu, old].into_iter()),
            ["GPU-82441e91b6b1846b", "1"]
        );
    }
}
