//! A value whose marked numbers are texts in JSON: for the representations of the API.

use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::MARK;

/// Writes a value with its marked numbers as texts.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<T, S>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Serialize + ?Sized,
    S: Serializer,
{
    Texts(value).serialize(serializer)
}

/// Reads a value; its marked numbers may be numbers or texts.
///
/// # Errors
/// Those of the deserializer.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer)
}

/// A value that is written through an [`Adapter`], as all its parts are.
struct Texts<'a, T: ?Sized>(&'a T);

impl<T: Serialize + ?Sized> Serialize for Texts<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(Adapter {
            inner: serializer,
            marked: false,
        })
    }
}

/// A serializer, or a part of one, that passes everything on and writes marked numbers as texts.
struct Adapter<S> {
    inner: S,
    /// The next number is a marked one.
    marked: bool,
}

impl<S> Adapter<S> {
    const fn part(inner: S) -> Self {
        Self {
            inner,
            marked: false,
        }
    }
}

/// Methods that pass one argument on.
macro_rules! forward {
    ($($method:ident($value:ty);)*) => {
        $(fn $method(self, value: $value) -> Result<Self::Ok, Self::Error> {
            self.inner.$method(value)
        })*
    };
}

impl<S: Serializer> Serializer for Adapter<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Adapter<S::SerializeSeq>;
    type SerializeTuple = Adapter<S::SerializeTuple>;
    type SerializeTupleStruct = Adapter<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Adapter<S::SerializeTupleVariant>;
    type SerializeMap = Adapter<S::SerializeMap>;
    type SerializeStruct = Adapter<S::SerializeStruct>;
    type SerializeStructVariant = Adapter<S::SerializeStructVariant>;

    forward! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_unit_struct(&'static str);
    }

    fn serialize_u64(self, number: u64) -> Result<S::Ok, S::Error> {
        if self.marked {
            self.inner.collect_str(&number)
        } else {
            self.inner.serialize_u64(number)
        }
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.serialize_some(&Texts(value))
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        if name == MARK {
            value.serialize(Adapter {
                inner: self.inner,
                marked: true,
            })
        } else {
            self.inner.serialize_newtype_struct(name, &Texts(value))
        }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.inner
            .serialize_newtype_variant(name, index, variant, &Texts(value))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        self.inner.serialize_seq(length).map(Adapter::part)
    }

    fn serialize_tuple(self, length: usize) -> Result<Self::SerializeTuple, S::Error> {
        self.inner.serialize_tuple(length).map(Adapter::part)
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        let inner = self.inner.serialize_tuple_struct(name, length);
        inner.map(Adapter::part)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let inner = self
            .inner
            .serialize_tuple_variant(name, index, variant, length);
        inner.map(Adapter::part)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        self.inner.serialize_map(length).map(Adapter::part)
    }

    fn serialize_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        self.inner.serialize_struct(name, length).map(Adapter::part)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let inner = self
            .inner
            .serialize_struct_variant(name, index, variant, length);
        inner.map(Adapter::part)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Parts of a value without names: one method each, which takes the next one.
macro_rules! elements {
    ($($part:ident::$method:ident;)*) => {
        $(impl<S: $part> $part for Adapter<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                self.inner.$method(&Texts(value))
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

elements! {
    SerializeSeq::serialize_element;
    SerializeTuple::serialize_element;
    SerializeTupleStruct::serialize_field;
    SerializeTupleVariant::serialize_field;
}

/// Parts of a value with names.
macro_rules! fields {
    ($($part:ident;)*) => {
        $(impl<S: $part> $part for Adapter<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), S::Error> {
                self.inner.serialize_field(name, &Texts(value))
            }

            fn skip_field(&mut self, name: &'static str) -> Result<(), S::Error> {
                self.inner.skip_field(name)
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

fields! {
    SerializeStruct;
    SerializeStructVariant;
}

impl<S: SerializeMap> SerializeMap for Adapter<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    // Keys are texts in JSON, whatever they are.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        self.inner.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.inner.serialize_value(&Texts(value))
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}
