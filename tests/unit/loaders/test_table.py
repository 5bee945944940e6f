import pytest

from kb_core.errors import LoaderError
from kb_core.loaders import Limits, load_file


def text(tmp_path, data, name="a.csv", **options):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return load_file(path, **options).documents[0].content


def test_each_row_is_a_passage_that_names_its_columns(tmp_path):
    table = 'name,price,note\nHat,5,"soft, warm"\nShoe,,"two\n\nlines"\n\n,,\n'
    assert text(tmp_path, table) == "name: Hat\nprice: 5\nnote: soft, warm\n\nname: Shoe\nnote: two\nlines"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path, delimiter):
    rows = [["name", "price in €"], ["Hat", "5"], ["Shoe, left; right" if delimiter in "\t|" else "Shoe", "60"]]
    table = "\r\n".join(delimiter.join(row) for row in rows)
    expected = "\n\n".join(f"name: {name}\nprice in €: {price}" for name, price in rows[1:])
    assert text(tmp_path, table) == expected


def test_decimal_commas_do_not_hide_the_semicolon(tmp_path):
    assert text(tmp_path, "name;price\nHat;5,20\nShoe;60,00\n").startswith("name: Hat\nprice: 5,20")


def test_excel_may_state_the_delimiter(tmp_path):
    assert text(tmp_path, "sep=;\na,b;c\n1,5;2\n") == "a,b: 1,5\nc: 2"


def test_a_tsv_is_cut_at_tabs_only(tmp_path):
    assert text(tmp_path, "a,b\tc\n1,2\t3\n", "a.tsv") == "a,b: 1,2\nc: 3"


def test_a_table_without_a_header_loses_no_row(tmp_path):
    assert text(tmp_path, "1,Hat\n2,Shoe\n") == "column 1: 1\ncolumn 2: Hat\n\ncolumn 1: 2\ncolumn 2: Shoe"


def test_cells_beyond_the_header_and_columns_without_a_name_are_numbered(tmp_path):
    assert text(tmp_path, ",name\n0,Hat,extra\n") == "column 1: 0\nname: Hat\ncolumn 3: extra"


def test_a_table_of_nothing_but_a_header_gives_the_header(tmp_path):
    assert text(tmp_path, "name,price\n") == "name, price"


def test_a_table_of_one_column_is_read(tmp_path):
    assert text(tmp_path, "city\nBerlin\nParis, Texas\n") == "city: Berlin\n\ncity: Paris\ncolumn 2: Texas"


def test_nul_padding_in_cells_and_at_the_end_is_left_out(tmp_path):
    assert text(tmp_path, b"name,price\nHat\0\0\0,5\0\0\nA\0B,6\n" + b"\0" * 5000) == (
        "name: Hat\nprice: 5\n\nname: A\ufffdB\nprice: 6"
    )


def test_a_spreadsheet_export_in_windows_1252_is_read(tmp_path):
    assert text(tmp_path, "Straße;Größe\nMüllerstraße;groß\n".encode("cp1252")) == "Straße: Müllerstraße\nGröße: groß"


def test_thirty_thousand_rows_are_all_there(tmp_path):
    table = "id,name\n" + "".join(f"{i},item {i}\n" for i in range(30_000))
    passages = text(tmp_path, table).split("\n\n")
    assert len(passages) == 30_000
    assert passages[-1] == "id: 29999\nname: item 29999"


def test_a_quotation_mark_that_is_never_closed_is_reported_with_its_line(tmp_path):
    with pytest.raises(LoaderError, match=r"a\.csv.*quotation mark not closed"):
        text(tmp_path, 'a,b\n1,"open\n' + "2,3\n" * 50_000)


def test_a_header_that_would_be_repeated_beyond_all_bounds_is_refused(tmp_path):
    with pytest.raises(LoaderError, match="longer than 1,000,000 characters"):
        text(tmp_path, "n" * 100_000 + "\n" + "x\n" * 10_000, limits=Limits(max_chars=1_000_000))
