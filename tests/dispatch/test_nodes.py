"""Nodes: the legal ways between states, and the idle stack."""

from __future__ import annotations

import pytest

from proxy.dispatch.nodes import IllegalTransition, Node, Nodes, NodeState

S = NodeState
LEGAL = {
    (S.STARTING, S.IDLE),
    (S.STARTING, S.DRAINING),
    (S.IDLE, S.BUSY),
    (S.IDLE, S.UNREADY),
    (S.IDLE, S.DRAINING),
    (S.BUSY, S.IDLE),
    (S.BUSY, S.UNREADY),
    (S.UNREADY, S.IDLE),
    (S.UNREADY, S.DRAINING),
    (S.DRAINING, S.GONE),
    (S.DRAINING, S.UNREADY),
}
WAY_TO: dict[NodeState, list[NodeState]] = {
    S.STARTING: [],
    S.IDLE: [S.IDLE],
    S.BUSY: [S.IDLE, S.BUSY],
    S.UNREADY: [S.IDLE, S.UNREADY],
    S.DRAINING: [S.DRAINING],
    S.GONE: [S.DRAINING, S.GONE],
}


def node_in(nodes: Nodes, state: NodeState) -> Node:
    node = nodes.add("node", 0.0)
    for step in WAY_TO[state]:
        nodes.move(node, step)
    return node


def idle_at(nodes: Nodes, *instants: float) -> list[Node]:
    """As many nodes, idle since then."""
    made = [nodes.add("node", 0.0) for _ in instants]
    for node, instant in zip(made, instants, strict=True):
        nodes.move(node, S.IDLE, instant)
    return made


def stack(nodes: Nodes) -> list[int]:
    return [node.number for node in nodes.idle()]


@pytest.mark.parametrize("before", S)
@pytest.mark.parametrize("after", S)
def test_only_the_legal_ways_are_open(before: NodeState, after: NodeState) -> None:
    nodes = Nodes()
    node = node_in(nodes, before)
    epoch = node.epoch
    if (before, after) in LEGAL:
        nodes.move(node, after)
        assert (node.state, node.epoch) == (after, epoch + 1)
    else:
        with pytest.raises(IllegalTransition, match=rf"is {before}: it cannot become {after}"):
            nodes.move(node, after)
        assert (node.state, node.epoch) == (before, epoch)


def test_nodes_are_counted_by_state_and_paid_until_they_are_gone() -> None:
    nodes = Nodes()
    for state in S:
        node_in(nodes, state)
    assert [nodes.count(state) for state in S] == [1, 1, 1, 1, 1, 1]
    assert len(nodes) == 5
    assert [node.number for node in nodes] == [1, 2, 3, 4, 5]
    first = nodes.get(1)
    assert first is not None
    assert (first.name, first.state) == ("node", S.STARTING)
    assert nodes.get(6) is None


def test_nodes_may_come_and_go_while_they_are_walked() -> None:
    nodes = Nodes()
    idle_at(nodes, 0.0, 0.0)
    for node in nodes:
        nodes.move(node, S.DRAINING)
        nodes.move(node, S.GONE)
        nodes.add("another", 1.0)
    assert [node.number for node in nodes] == [3, 4]


def test_the_most_recently_freed_is_on_top_and_ties_go_by_number() -> None:
    nodes = Nodes()
    _, second, third, _ = idle_at(nodes, 1.0, 2.0, 2.0, 2.0)
    assert stack(nodes) == [2, 3, 4, 1]
    nodes.move(second, S.BUSY)
    nodes.move(third, S.BUSY)
    nodes.move(third, S.IDLE, 3.0)
    nodes.move(second, S.IDLE, 3.0)
    assert stack(nodes) == [2, 3, 4, 1]
    assert nodes.next_idle is second


@pytest.mark.parametrize(("taken", "rest"), [(0, [3, 2]), (1, [3, 1]), (2, [2, 1])])
def test_an_idle_node_can_be_taken_from_anywhere_in_the_stack(taken: int, rest: list[int]) -> None:
    nodes = Nodes()
    nodes.move(idle_at(nodes, 1.0, 2.0, 3.0)[taken], S.UNREADY)
    assert stack(nodes) == rest


def test_a_node_says_what_it_is() -> None:
    assert repr(Nodes().add("gjtest-3f9a", 0.0)) == "<Node 1 gjtest-3f9a starting>"
