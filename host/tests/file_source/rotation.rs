//! Files that are rotated, replaced and truncated under the reader.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::Duration;

use keyvector_core::change::SequenceNumber;
use keyvector_core::lease::Checkpoint;
use keyvector_host::source::ShardReader;

use super::{Folder, Seen, read_to_tip, source};

#[tokio::test]
async fn rotation_reads_the_old_file_to_its_end_first() {
    let mut folder = Folder::new("a\nb\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    reader.next(1).await.unwrap();
    folder.append("c\n");
    folder.rotate();
    let seen = read_to_tip(&mut reader).await;
    assert_eq!(seen.lines, ["b", "c"], "the file at the path is missing, and waited for");
    folder.append("");
    // The writer has not moved on before it has written to the new file.
    let mut late = OpenOptions::new().append(true).open(folder.beside(".1")).unwrap();
    late.write_all(b"late\n").unwrap();
    assert_eq!(read_to_tip(&mut reader).await.lines, ["late"]);
    late.write_all(b"last, without an end").unwrap();
    folder.append("d\n");
    let seen = read_to_tip(&mut reader).await;
    assert_eq!(seen.lines, ["last, without an end", "d"]);
    assert_eq!(seen.numbers, [5, 1]);
    assert_eq!(seen.sequence_numbers[1].as_str(), "1000000000000000002");
    assert!(seen.gaps.is_empty());
}

#[tokio::test]
async fn several_rotations_while_nobody_reads_are_followed_in_order() {
    let mut folder = Folder::new("a\nb\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let position = reader.next(1).await.unwrap().position;
    for line in ["c\n", "d\n", "e\n"] {
        folder.rotate();
        folder.append(line);
    }
    let mut reader = folder.open(&position);
    let seen = read_to_tip(&mut reader).await;
    assert_eq!(seen.lines, ["b", "c", "d", "e"]);
    assert!(seen.gaps.is_empty());
    assert_eq!(seen.sequence_numbers[3].as_str(), "3000000000000000002");
}

#[tokio::test]
async fn rotated_files_of_one_time_are_a_gap() {
    let mut folder = Folder::new("a\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let position = read_to_tip(&mut reader).await.position.unwrap();
    for line in ["b\n", "c\n", "d\n"] {
        folder.rotate();
        folder.append(line);
    }
    let same = fs::metadata(folder.beside(".1")).unwrap().modified().unwrap();
    OpenOptions::new().append(true).open(folder.beside(".2")).unwrap().set_modified(same).unwrap();
    let seen = read_to_tip(&mut folder.open(&position)).await;
    assert_eq!(seen.lines, ["d"]);
    assert_eq!(seen.gaps.len(), 1);
    assert!(seen.gaps[0].contains("order"), "{}", seen.gaps[0]);
}

#[tokio::test]
async fn a_backup_beside_the_file_is_no_rotated_file() {
    let mut folder = Folder::new("a\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    read_to_tip(&mut reader).await;
    folder.rotate();
    folder.append("b\n");
    fs::write(folder.beside(".bak"), "x\n").unwrap();
    fs::write(folder.beside("2"), "y\n").unwrap();
    fs::create_dir(folder.beside(".3")).unwrap();
    assert_eq!(read_to_tip(&mut reader).await.lines, ["b"]);
}

#[tokio::test]
async fn a_file_that_is_nowhere_any_more_is_a_gap() {
    let mut folder = Folder::new("a\nb\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let before = reader.next(1).await.unwrap();
    let lost_later = reader.next(1).await.unwrap();
    drop(reader);
    fs::remove_file(&folder.path).unwrap();
    // Without this the new file may get the old one's inode, which is another case.
    let _keeps_the_inode = File::create(folder.path.with_file_name("other")).unwrap();
    folder.append("n\n");
    let mut reader = folder.open(&before.position);
    let batch = reader.next(10).await.unwrap();
    let gap = batch.gap.unwrap();
    assert!(gap.contains("after line 1 is lost"), "{gap}");
    assert_eq!(batch.records[0].raw, b"n");
    assert!(batch.records[0].sequence_number > lost_later.records[0].sequence_number);
    assert_eq!(reader.next(10).await.unwrap().gap, None, "told once");
}

#[tokio::test]
async fn a_copied_folder_goes_on_where_it_was() {
    let mut folder = Folder::new("a\nb\n");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    let position = reader.next(1).await.unwrap().position;
    let copy = folder.beside(".copy");
    fs::copy(&folder.path, &copy).unwrap();
    fs::rename(&folder.path, folder.path.with_file_name("elsewhere")).unwrap();
    fs::rename(&copy, &folder.path).unwrap();
    folder.append("c\n");
    let seen = read_to_tip(&mut folder.open(&position)).await;
    assert_eq!((seen.lines, seen.gaps.len()), (vec!["b".to_owned(), "c".to_owned()], 0));
    assert_eq!(seen.sequence_numbers[0], SequenceNumber::from(4));
}

#[tokio::test]
async fn an_editors_save_by_rename_goes_on_where_it_was() {
    let mut folder = Folder::new("a\nb");
    let mut reader = folder.open(&Checkpoint::TrimHorizon);
    read_to_tip(&mut reader).await;
    fs::write(folder.beside(".swp"), "a\nb\nc\n").unwrap();
    fs::rename(folder.beside(".swp"), &folder.path).unwrap();
    let seen = read_to_tip(&mut reader).await;
    assert_eq!(seen.lines, ["b", "c"]);
    assert_eq!(seen.numbers, [2, 3]);
    assert_eq!(seen.sequence_numbers[1], SequenceNumber::from(6));
    folder.append("d\n");
    assert_eq!(read_to_tip(&mut reader).await.lines, ["d"]);
}

#[tokio::test]
async fn truncation_starts_a_generation_and_is_a_gap_only_if_something_was_unread() {
    for (unread, gaps) in [("", 0), ("c\n", 1), ("torn", 1)] {
        let mut folder = Folder::new("a\nb\n");
        let mut reader = folder.open(&Checkpoint::TrimHorizon);
        read_to_tip(&mut reader).await;
        folder.append(unread);
        if unread == "torn" {
            read_to_tip(&mut reader).await;
        } else if !unread.is_empty() {
            folder.append("d\n");
            assert_eq!(reader.next(1).await.unwrap().records.len(), 1);
        }
        folder.truncate();
        folder.append("n\n");
        let seen = read_to_tip(&mut reader).await;
        assert_eq!(seen.lines, ["n"]);
        assert_eq!(seen.gaps.len(), gaps, "{unread:?}: {:?}", seen.gaps);
        assert!(seen.sequence_numbers[0] > SequenceNumber::from(1000));
    }
}

#[tokio::test]
async fn content_replaced_in_place_is_seen_even_where_the_file_is_longer() {
    for down in [false, true] {
        let mut folder = Folder::new("a\nb\n");
        let mut reader = folder.open(&Checkpoint::TrimHorizon);
        let seen = read_to_tip(&mut reader).await;
        folder.truncate();
        folder.append("m\nn\no\n");
        if down {
            reader = folder.open(&seen.position.unwrap());
        }
        let seen = read_to_tip(&mut reader).await;
        assert_eq!(seen.lines, ["m", "n", "o"]);
        assert_eq!(seen.gaps.len(), usize::from(down), "a host that was down cannot know what it missed");
    }
}

#[tokio::test]
async fn a_copied_and_truncated_file_is_finished_in_its_copy() {
    for down in [false, true] {
        let mut folder = Folder::new("a\nb\n");
        let mut reader = folder.open(&Checkpoint::TrimHorizon);
        let position = reader.next(1).await.unwrap().position;
        folder.copy_and_truncate();
        folder.append("c\n");
        if down {
            reader = folder.open(&position);
        }
        let seen = read_to_tip(&mut reader).await;
        assert_eq!(seen.lines, ["b", "c"]);
        assert!(seen.gaps.is_empty(), "{:?}", seen.gaps);
    }
}

#[tokio::test]
async fn the_first_position_finds_a_file_that_is_rotated_before_it_is_read() {
    let mut folder = Folder::new("a\n");
    let position = folder.open(&Checkpoint::TrimHorizon).position();
    folder.rotate();
    folder.append("b\n");
    assert_eq!(read_to_tip(&mut folder.open(&position)).await.lines, ["a", "b"]);
}

#[tokio::test]
async fn a_first_position_in_a_file_that_is_nowhere_is_the_start() {
    let mut folder = Folder::new("a\n");
    let position = folder.open(&Checkpoint::TrimHorizon).position();
    fs::rename(&folder.path, folder.path.with_file_name("elsewhere")).unwrap();
    folder.append("b\n");
    let seen = read_to_tip(&mut folder.open(&position)).await;
    assert_eq!((seen.lines, seen.gaps.len()), (vec!["b".to_owned()], 0));
    assert_eq!(seen.sequence_numbers[0], SequenceNumber::from(2));
}

/// A reader at full speed beside a writer that tears lines and rotates. Nothing is set by hand here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_keeps_up_with_a_writer_on_another_thread() {
    const LINES: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("films.jsonl");
    File::create(&path).unwrap();
    let mut reader = source(&path).open(&Checkpoint::TrimHorizon).unwrap();
    let text = |number: usize| format!("line {number} {}", "z".repeat(number % 97));
    let writer = std::thread::spawn(move || {
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        for number in 0..LINES {
            if number % 500 == 499 {
                std::thread::sleep(Duration::from_millis(25));
                fs::rename(&path, path.with_file_name(format!("films.jsonl-{number:04}"))).unwrap();
                std::thread::sleep(Duration::from_millis(number as u64 % 4));
                file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
            }
            let line = format!("{}\n", text(number));
            let (left, right) = line.split_at(number % line.len());
            file.write_all(left.as_bytes()).unwrap();
            file.write_all(right.as_bytes()).unwrap();
        }
    });
    let mut seen = Seen::default();
    while seen.lines.len() < LINES {
        seen.add(reader.next(17).await.unwrap());
    }
    writer.join().unwrap();
    assert_eq!(seen.lines, (0..LINES).map(text).collect::<Vec<_>>());
    assert!(seen.gaps.is_empty(), "{:?}", seen.gaps);
    assert!(seen.sequence_numbers.is_sorted_by(|a, b| a < b));
}
