// RUN: vk-opt '--load-ahead{iterations=2}' --verify-mapped %s | filecheck %s
// A loop hands on what it has loaded for its next two iterations: positions beyond the last are the last one again. What
// does not depend on the position is loaded before the loop, and nothing where the loop has no iteration.
// What the loop writes, or finds by what it carries or loads, is loaded where it was.

vk.mapped @decayed(%x: !vk.tensor<[L, D], f32>, %row: !vk.tensor<[L], i64>, %decay: !vk.tensor<[D], f32>, %out: !vk.tensor<[L, D], f32>) facts {sizes = {}, multiples = {}, strides = {}, distinct} {
  %L = vk.size L
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  vk.launch "decayed" over (%p = %c1) {
    %none = arith.constant dense<0.0> : tensor<8xf32, #vk.axes<d>>
    // CHECK:      %[[SOME:.*]] = arith.cmpi slt, %c0, %L : i64
    // CHECK-NEXT: %state = scf.if %[[SOME]] -> (tensor<8xf32, #vk.axes<d>>) {
    // CHECK-NEXT:   %kept = vk.load %decay[d]
    // CHECK:        %[[LAST:.*]] = arith.subi %L
    // CHECK:        vk.load %x[%c0, d]
    // CHECK:        %[[ONE:.*]] = arith.minsi %{{.*}}, %[[LAST]] : i64
    // CHECK-NEXT:   vk.load %x[%[[ONE]], d]
    // CHECK:        vk.load %row[%c0]
    // CHECK:        scf.for %t = %c0 to %L
    // CHECK-NEXT:     %[[TWO:.*]] = arith.constant 2
    // CHECK-NEXT:     %[[LATER:.*]] = arith.addi %t, %[[TWO]] : i64
    // CHECK-NEXT:     %[[WITHIN:.*]] = arith.minsi %[[LATER]], %[[LAST]] : i64
    // CHECK-NEXT:     %[[NEW:.*]] = vk.load %x[%[[WITHIN]], d]
    // CHECK-NEXT:     %[[ROW:.*]] = vk.load %row[%[[WITHIN]]]
    // CHECK-NEXT:     %found = vk.load %x[%r_2, d]
    // CHECK-NEXT:     %old = vk.load %out[%t, d]
    // CHECK-NOT:      vk.load
    // CHECK:          scf.yield %d, %{{.*}}, %[[NEW]], %{{.*}}, %[[ROW]]
    // CHECK:      } else {
    // CHECK-NEXT:   scf.yield %none
    %state = scf.for %t = %c0 to %L step %c1 iter_args(%before = %none) -> (tensor<8xf32, #vk.axes<d>>) : i64 {
      %now = vk.load %x[%t, d] : !vk.tensor<[L, D], f32> -> tensor<8xf32, #vk.axes<d>>
      %kept = vk.load %decay[d] : !vk.tensor<[D], f32> -> tensor<8xf32, #vk.axes<d>>
      %r = vk.load %row[%t] : !vk.tensor<[L], i64> -> i64
      %found = vk.load %x[%r, d] : !vk.tensor<[L, D], f32> -> tensor<8xf32, #vk.axes<d>>
      %old = vk.load %out[%t, d] : !vk.tensor<[L, D], f32> -> tensor<8xf32, #vk.axes<d>>
      %a = arith.mulf %before, %kept : tensor<8xf32, #vk.axes<d>>
      %b = arith.addf %a, %now : tensor<8xf32, #vk.axes<d>>
      %c = arith.addf %b, %found : tensor<8xf32, #vk.axes<d>>
      %d = arith.addf %c, %old : tensor<8xf32, #vk.axes<d>>
      vk.store %d in %out[%t, d] : !vk.tensor<[L, D], f32> <- tensor<8xf32, #vk.axes<d>>
      scf.yield %d : tensor<8xf32, #vk.axes<d>>
    }
  }
}
