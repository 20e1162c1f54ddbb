"""Secrets are known by their names, their beginnings and their check digits, and by nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.stages.text.secrets import mentions_secret


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2",
        "My passwd is x",
        "我的密码是 abc123",
        "口令：芝麻开门",
        "my PIN is 4711",
        "PIN: 4711",
        "the pin code of the door",
        "use AKIAIOSFODNN7EXAMPLE for the bucket",
        "sk-proj-abcdefgh12345678",
        "ghp_0123456789abcdefghij",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "postgres://wei:geheim@db/x",
        "Authorization: Bearer abcdef.ghijkl-mnop",
        "我的身份证是 11010519491231002X",
        "11010519491231002x",
        "３４０５２４１９８００１０１００１Ｘ",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111 is mine",
        "378282246310005",
        "DE89 3704 0044 0532 0130 00",
        "GB29NWBK60161331926819",
        "078-05-1120",
        "银行账号 6217 0000 1000 2000 300",
        "账号：622202",
        "our account number is 0532 0130",
        "6222020200112233445",
        "the CVV is 123",
    ],
)
def test_a_secret_is_seen(text: str) -> None:
    assert mentions_secret(text)
    assert mentions_secret(f"Please remember: {text}.")


@pytest.mark.parametrize(
    "text",
    [
        "My pump is an HX-400 with 400 litres.",
        "我们的水泵是 HX-400，容积 400 升",
        "The order is 2026-11-29 to 2027-01-15.",
        "Call 13800138000 or +49 30 901820.",
        "It costs 1,234,567.89 and weighs 12.5 kg.",
        "Sensor PN-1036 has 10000000 cycles.",
        "I keep the keys of the door; the key question is another.",
        "My account manager is Lee.",
        "pi is 3.14159265358979",
        "There is a pin on the board, and we open at 9.",
        "https://example.org/a:b@c",
        "0000 0000 and 2026",
        "",
    ],
)
def test_what_is_none_is_left_alone(text: str) -> None:
    assert not mentions_secret(text)


@given(st.lists(st.integers(0, 9), min_size=15, max_size=15).filter(lambda n: len(set(n)) > 1))
def test_every_card_number_is_seen_with_its_check_digit(digits: list[int]) -> None:
    doubled = [sum(divmod(2 * one, 10)) for one in digits[::-2]]
    check = -(sum(digits[-2::-2]) + sum(doubled)) % 10
    number = "".join(map(str, [*digits, check]))
    assert mentions_secret(number)
    assert mentions_secret(" ".join(number[n : n + 4] for n in range(0, 16, 4)))


@given(st.text(max_size=400))
def test_any_text_is_judged(text: str) -> None:
    assert mentions_secret(text) in {True, False}
