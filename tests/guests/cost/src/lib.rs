//! Two ordinary table plugins in one, to see what a call costs: `light` makes a short text and a little metadata of
//! three columns, `eight` writes eight columns of about 500 bytes together into a long text. The same exists in other
//! languages beside it.

use std::fmt::Write as _;

use keyvector_sdk::{
    Boolean, Column, Columns, Document, Integer, Metadata, MetadataKey, MetadataType, Number, Row, Table,
    Text,
};
use serde::Deserialize;

/// `{"shape":"light"}` or `{"shape":"eight"}`.
#[derive(Deserialize)]
pub struct Config {
    shape: Shape,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Light,
    Eight,
}

pub enum Cost {
    Light(Light),
    Eight(Box<Eight>),
}

pub struct Light {
    title: Column<Text>,
    year: Column<Integer>,
    genre: Column<Text>,
}

pub struct Eight {
    id: Column<Integer>,
    title: Column<Text>,
    year: Column<Integer>,
    genre: Column<Text>,
    rating: Column<Number>,
    votes: Column<Integer>,
    seen: Column<Boolean>,
    plot: Column<Text>,
}

impl Table for Cost {
    type Config = Config;

    fn reads(config: &Config) -> Vec<String> {
        let names: &[&str] = match config.shape {
            Shape::Light => &["title", "year", "genre"],
            Shape::Eight => &["id", "title", "year", "genre", "rating", "votes", "seen", "plot"],
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn metadata(config: &Config) -> Vec<MetadataKey> {
        match config.shape {
            Shape::Light => vec![
                MetadataKey::new("year", MetadataType::Number),
                MetadataKey::new("genre", MetadataType::Text),
            ],
            Shape::Eight => vec![],
        }
    }

    fn open(config: Config, columns: &Columns) -> Result<Self, String> {
        Ok(match config.shape {
            Shape::Light => Self::Light(Light {
                title: columns.column("title")?,
                year: columns.column("year")?,
                genre: columns.column("genre")?,
            }),
            Shape::Eight => Self::Eight(Box::new(Eight {
                id: columns.column("id")?,
                title: columns.column("title")?,
                year: columns.column("year")?,
                genre: columns.column("genre")?,
                rating: columns.column("rating")?,
                votes: columns.column("votes")?,
                seen: columns.column("seen")?,
                plot: columns.column("plot")?,
            })),
        })
    }

    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String> {
        match self {
            Self::Light(light) => light.document(row),
            Self::Eight(eight) => eight.document(row),
        }
    }
}

impl Light {
    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String> {
        let title = row.get(&self.title)?.unwrap_or_default();
        let year = row.get(&self.year)?.unwrap_or_default();
        let mut text = String::with_capacity(title.len() + 16);
        text.push_str(title);
        text.push_str(" (");
        text.push_str(&year.to_string());
        text.push(')');
        let metadata = Metadata::new().integer("year", year).text("genre", row.get(&self.genre)?);
        Ok(Some(Document { text, metadata }))
    }
}

impl Eight {
    fn document(&self, row: &Row<'_>) -> Result<Option<Document>, String> {
        let plot = row.get(&self.plot)?.unwrap_or_default();
        let mut text = String::with_capacity(plot.len() + 128);
        // Writing to a string cannot fail.
        write!(
            text,
            "{}: {} ({}), {}, rated {} by {}{}\n{plot}",
            row.get(&self.id)?.unwrap_or_default(),
            row.get(&self.title)?.unwrap_or_default(),
            row.get(&self.year)?.unwrap_or_default(),
            row.get(&self.genre)?.unwrap_or_default(),
            row.get(&self.rating)?.unwrap_or_default(),
            row.get(&self.votes)?.unwrap_or_default(),
            if row.get(&self.seen)? == Some(true) { ", seen" } else { "" },
        )
        .ok();
        Ok(Some(Document { text, metadata: Metadata::new() }))
    }
}

keyvector_sdk::export_table!(Cost);
