//! Devices: the units of a resource that a worker can tell apart, such as its GPUs.
//!
//! Requests count devices; `baton_core::host` decides which ones an attempt holds.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The resource of GPUs.
pub const GPU: &str = "gpu";

/// Thousandths of one device.
pub const WHOLE: u64 = 1_000;

/// The devices of each resource, in the order in which they are assigned.
pub type DeviceLists = BTreeMap<String, Vec<String>>;

/// An amount of devices, in thousandths. JSON has the number of devices: `2` or `0.5`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = f64))]
pub struct DeviceAmount(u64);

impl DeviceAmount {
    #[must_use]
    pub const fn whole(devices: u64) -> Self {
        Self(devices.saturating_mul(WHOLE))
    }

    #[must_use]
    pub const fn from_milli(milli: u64) -> Self {
        Self(milli)
    }

    /// Thousandths of a device.
    #[must_use]
    pub const fn milli(self) -> u64 {
        self.0
    }

    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// True if an attempt can request it: a part of one device, or whole devices.
    #[must_use]
    pub const fn is_requestable(self) -> bool {
        self.0 < WHOLE || self.0.is_multiple_of(WHOLE)
    }
}

impl fmt::Display for DeviceAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / WHOLE, self.0 % WHOLE);
        let rest = format!(".{rest:03}");
        write!(f, "{whole}{}", rest.trim_end_matches(['0', '.']))
    }
}

impl Serialize for DeviceAmount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            serializer.serialize_u64(self.0)
        } else if self.0.is_multiple_of(WHOLE) {
            serializer.serialize_u64(self.0 / WHOLE)
        } else {
            // The nearest number, which is read as the same thousandths.
            serializer.serialize_f64(self.0 as f64 / WHOLE as f64)
        }
    }
}

impl<'de> Deserialize<'de> for DeviceAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(AmountVisitor)
        } else {
            u64::deserialize(deserializer).map(Self)
        }
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = DeviceAmount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of devices such as 2 or 0.5, with at most three decimals")
    }

    fn visit_u64<E: Error>(self, devices: u64) -> Result<DeviceAmount, E> {
        Ok(DeviceAmount::whole(devices))
    }

    fn visit_i64<E: Error>(self, devices: i64) -> Result<DeviceAmount, E> {
        let refused = |_| E::invalid_value(Unexpected::Signed(devices), &self);
        u64::try_from(devices)
            .map(DeviceAmount::whole)
            .map_err(refused)
    }

    fn visit_f64<E: Error>(self, devices: f64) -> Result<DeviceAmount, E> {
        let milli = devices * WHOLE as f64;
        let is_exact = (milli - milli.round()).abs() < 1e-6;
        if !is_exact || !(0.0..9e15).contains(&milli) {
            return Err(E::invalid_value(Unexpected::Float(devices), &self));
        }
        Ok(DeviceAmount(milli.round() as u64))
    }
}

/// A device, or a part of one, that an attempt holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceShare {
    /// The resource, such as `gpu`.
    pub resource: String,
    /// The device as its worker names it: a UUID, an index, or a word of `--resources`.
    pub id: String,
    /// Thousandths of it: 1000 for all of it.
    pub milli: u64,
}

impl fmt::Display for DeviceShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource, self.id)?;
        if self.milli < WHOLE {
            write!(f, " ({} of it)", DeviceAmount(self.milli))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_of_devices_in_json() {
        for (text, milli) in [
            ("2", 2_000),
            ("0.5", 500),
            ("0.333", 333),
            ("0", 0),
            ("1.5", 1_500),
        ] {
            let read: DeviceAmount = serde_json::from_str(text).expect(text);
            assert_eq!(read.milli(), milli, "{text}");
            assert_eq!(serde_json::to_string(&read).expect("JSON"), text);
            assert_eq!(read.to_string(), text);
        }
        let whole: DeviceAmount = serde_json::from_str("2.0").expect("whole");
        assert_eq!(whole, DeviceAmount::whole(2));
        for text in ["-1", "-0.5", "0.0001", "1e300", "\"1\"", "null"] {
            let error = serde_json::from_str::<DeviceAmount>(text).expect_err(text);
            assert!(error.to_string().contains("such as 2 or 0.5"), "{error}");
        }
    }

    #[test]
    fn parts_are_of_one_device_only() {
        let amount = DeviceAmount::from_milli;
        assert!(amount(600).is_requestable() && amount(2_000).is_requestable());
        assert!(amount(0).is_requestable() && !amount(1_500).is_requestable());
    }
}
