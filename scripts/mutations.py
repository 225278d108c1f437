#!/usr/bin/env python3
"""Breaks one line at a time and shows that a test finds it.

    scripts/mutations.py [NUMBER...]

Each mutation of docs/evidence/mutations.md is made in a temporary git worktree of HEAD, and the test
that guards its rule runs there. It must fail: a mutation that survives is a rule without a test.
Without numbers all are made, one after the other. The exit status is 1 if one survives, and if
a line is not there any more: then write the mutation anew, here and on the page.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# file, the text in it (once), what replaces it, the test that fails, its package
MUTATIONS = {
    1: ("evaluator/judge.go",
        "notes, err := s.Close()\n\tout.Evidence",
        "notes, _ := s.Close()\n\tout.Evidence",
        "TestVerdicts", "./evaluator/cpu"),
    2: ("evaluator/judge.go",
        'if t.Missing != "" && slices.Contains(j.rules.sanitizers, t.Name) {',
        'if t.Missing == "" && slices.Contains(j.rules.sanitizers, t.Name) {',
        "TestMissingToolIsNotRun", "./evaluator/cpu"),
    3: ("evaluator/cpu/arena_linux.go",
        "if !bytes.Equal(behind, a.pattern) {",
        "if !bytes.Equal(behind[8:], a.pattern[8:]) {",
        "TestVerdicts", "./evaluator/cpu"),
    4: ("evaluator/cpu/flavour_linux.go",
        "GOMP_(single_start|loop_end_nowait|",
        "GOMP_(single_start|task|loop_end_nowait|",
        "TestOpenMP", "./evaluator/cpu"),
    5: ("evaluator/cpu/launch_linux.go",
        "tool == tsanName && c.src.Threads <= 1 {",
        "tool == tsanName && c.src.Threads <= 2 {",
        "TestSanitizers", "./evaluator/cpu"),
    6: ("evaluator/cpu/launch_linux.go",
        "[]placing{atEnd, atBegin, unaligned}",
        "[]placing{atEnd, atBegin}",
        "TestGuardPagesLong", "./evaluator/cpu"),
    7: ("evaluator/cpu/reach_linux.go",
        "watched := slices.Concat([]*shapeData{h.problem.Sanitize}, h.problem.SanitizeAlso)",
        "watched := slices.Concat([]*shapeData{h.problem.Sanitize})",
        "TestSanitizeAlso", "./evaluator/cpu"),
    8: ("evaluator/cpu/lab_linux.go",
        '"-Og", "-g", "-UNDEBUG")',
        '"-Og", "-g")',
        "TestDebugFlavour", "./evaluator/cpu"),
    9: ("evaluator/cpu/process_linux.go",
        'if q.Group != p.pid && !hasVariable(q.PID, runVariable+"="+p.token) {',
        "if q.Group != p.pid {",
        "TestWithoutSandbox", "./evaluator/cpu"),
    10: ("evaluator/cpu/native/jail.h",
        "DENY(SYS_shmget), DENY(SYS_semget)",
        "PASS(SYS_shmget), DENY(SYS_semget)",
        "TestContained", "./evaluator/cpu"),
    11: ("evaluator/cpu/timing_linux.go",
        "if err := c.look(base, left, false); err != nil {",
        "if err := error(nil); err != nil {",
        "TestOutlast", "./evaluator/cpu"),
    12: ("evaluator/internal/process/process_linux.go",
        "jail = jail.With(nil, []string{c.Dir})",
        'jail = jail.With([]string{"/"}, []string{c.Dir})',
        "TestJailedCompiler", "./evaluator/cpu"),
    13: ("evaluator/cuda/sanitize_linux.go",
        "grid[i] = min(n, most)",
        "grid[i] = min(n, most+1)",
        "TestSanitizeBlocks", "./evaluator/cuda"),
    14: ("evaluator/cuda/session_linux.go",
        'o.InputChanged = fmt.Sprintf("input %s was changed", input)',
        '_ = fmt.Sprintf("input %s was changed", input)',
        "TestVerdicts", "./evaluator/cuda"),
    15: ("evaluator/cuda/ptx/delays.go",
        "if taken && p.after {",
        "if taken && p.after && chosen != nil {",
        "TestDelays", "./evaluator/cuda/ptx"),
    16: ("evaluator/cuda/cubin.go",
        "most.registers, most.shared = max(most.registers, r.registers), max(most.shared, r.shared)",
        "most.registers, most.shared = most.registers, max(most.shared, r.shared)",
        "TestInspectSequence", "./evaluator/cuda"),
    17: ("evaluator/internal/labs/sharing_linux.go",
        "if code, ok = s.Cache.Get(kind, key, meta); ok || own || shelf == nil {",
        "if code, ok = s.Cache.Get(kind, key, meta); true {",
        "TestSharing", "./evaluator/internal/labs"),
    18: ("internal/campaign/campaign.go",
        "r.arrived[res.index] = res.result",
        "r.arrived[r.told] = res.result",
        "TestSamePath", "./internal/campaign"),
    19: ("internal/campaign/campaign.go",
        "if len(r.buffer) > 0 {\n\t\tif _, err := r.opts.Log",
        "if len(r.buffer) > 8 {\n\t\tif _, err := r.opts.Log",
        "TestNothingAnnouncedBeforeDurable", "./internal/campaign"),
    20: ("internal/campaign/campaign.go",
        "for ; r.learned <= len(r.candidates)-r.cfg.Window; r.learned++ {",
        "for ; r.learned < r.told; r.learned++ {",
        "TestNewBudget", "./internal/campaign"),
    21: ("internal/campaign/worker.go",
        "return res, r.alone(ctx, j.index, j.id, run)",
        "return res, run(ctx, func(evaluator.Stage) {})",
        "TestSIGKILL", "./internal/campaign"),
    22: ("internal/campaign/campaign.go",
        "if logged := r.past.proposal(i).Told; logged != nil {",
        "if logged := r.past.proposal(i).Told; logged != nil && r.past.broken {",
        "TestDrainAndResume", "./internal/campaign"),
    23: ("store/merge.go",
        "case !more && longer:\n\t\t\tm.taken[c.id] = c",
        "case !more && longer:\n\t\t\tm.taken[c.id] = old",
        "TestMergeProperty", "./store"),
    24: ("store/archive.go",
        "if strings.Contains(filepath.Base(name), partial) || strings.HasSuffix",
        "if strings.HasSuffix",
        "TestArchive", "./store"),
    25: ("internal/server/auth.go",
        'case said && need == "", said && c.scope.Includes(need):',
        'case said && need == "", said && c.scope != "":',
        "TestScopes", "./internal/server"),
    26: ("internal/server/scheduler.go",
        "if evaluated > *j.Began {",
        "if evaluated > *j.Began+100 {",
        "TestKilledAgainLong", "./internal/server"),
    27: ("internal/fleet/hub.go",
        "if held.item.on == x {\n\t\t\t\t\theld.item.of.requeue",
        "if held.item.on != x {\n\t\t\t\t\theld.item.of.requeue",
        "TestSurvives", "./internal/fleet"),
    28: ("internal/fleet/nats/transport.go",
        "case verb == asked && t.inHand[request] > 0:",
        "case verb == asked && t.inHand[request] > 1:",
        "TestLost", "./internal/fleet/nats"),
    29: ("kernels/file.go",
        "if r.Threads > 1 {",
        "if r.Threads > 2 {",
        "TestWrittenThreads", "./kernels"),
    30: ("kernels/lint.go",
        "|| !ok || l.relaunches(im, g, other, s) {",
        "|| !ok {",
        "TestLintSequence", "./kernels"),
    31: ("internal/export/plan.go",
        ', {"dependent", l.Dependent}}',
        "}",
        "TestPlansInC", "./internal/export"),
    32: ("internal/export/files/torch/formulas.py",
        "a * c - b * s, b * c + a * s",
        "a * c - b * s, b * c - a * s",
        "TestTorchFormulasLong", "./internal/export"),
    33: ("internal/export/export.go",
        "if lacks := w.Lacks(o.Min); len(lacks) > 0 {",
        "if lacks := w.Lacks(o.Min); len(lacks) > 1 {",
        "TestExportRefuses", "./internal/export"),
    34: ("internal/tables/compact.go",
        'if w.Failed != "" && w.Failed != evaluator.Launch {',
        'if w.Failed != "" && w.Failed == evaluator.Compile {',
        "TestFormsRoundTrip", "./internal/tables"),
    35: ("searchbench/run.go",
        "for len(r.Genomes)-told >= max(1, how.Window) {",
        "for len(r.Genomes)-told > max(1, how.Window) {",
        "TestRuns", "./searchbench"),
    36: ("evaluator/judge.go",
        "for _, s := range j.plan.Tune {\n\t\tpassing",
        "for _, s := range j.plan.Verify {\n\t\tpassing",
        "TestUndeclaredControls", "./evaluator"),
    37: ("evaluator/internal/labs/control.go",
        "i < last; i += 8",
        "i < last; i += 8 * last",
        "TestWorkLeftOut", "./evaluator/cpu"),
    38: ("internal/export/winners.go",
        "for _, u := range e.Description.Unproven {",
        "for _, u := range e.Description.Unproven[:0] {",
        "TestUnprovenWinner", "./internal/export"),
}


def main():
    numbers = [int(n) for n in sys.argv[1:]] or list(MUTATIONS)
    if unknown := [n for n in numbers if n not in MUTATIONS]:
        sys.exit(f"there is no mutation {unknown[0]}: they are 1 to {len(MUTATIONS)}")
    root = subprocess.run(["git", "rev-parse", "--show-toplevel"], check=True, capture_output=True, text=True).stdout.strip()
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder, "tree")
        subprocess.run(["git", "-C", root, "worktree", "add", "--quiet", "--detach", tree, "HEAD"], check=True)
        try:
            for n in numbers:
                said = mutate(tree, *MUTATIONS[n])
                survivors += not said.startswith("found")
                print(f"{n}: {said}", flush=True)
        finally:
            subprocess.run(["git", "-C", root, "worktree", "remove", "--force", tree], check=True)
    sys.exit(1 if survivors else 0)


def mutate(tree, file, old, new, test, package):
    path = tree / file
    text = path.read_text()
    if text.count(old) != 1:
        return f"not made: {file} has the line {text.count(old)} times"
    path.write_text(text.replace(old, new))
    chosen = {"EVOTUNE_TEST": "long"} if test.endswith("Long") else {}
    done = subprocess.run(["go", "test", "-count=1", "-run", f"^{test}$", package], cwd=tree,
                          env=os.environ | chosen, capture_output=True, text=True, errors="replace")
    path.write_text(text)
    failed = re.search(r"^\s*(\w+_test\.go:\d+: .*)", done.stdout, re.M)
    if f"--- FAIL: {test}" in done.stdout:
        return f"found by {test} of {package}: " + (failed[1][:120] if failed else "")
    if done.returncode:
        return f"not tested: {test} of {package} did not run:\n{done.stdout}{done.stderr}"
    return f"SURVIVES: {test} of {package} passes or is skipped"


if __name__ == "__main__":
    main()
