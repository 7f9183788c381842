// RUN: vk-opt '--apply-plan{tiles="i=4" multiples="M=4" distinct=true}' --verify-mapped %s | filecheck %s
// A ragged range runs as many steps as its longest element; elements that have finished load nothing and keep their sum.

vk.kernel @row_sums(%start: !vk.tensor<[S], i64>, %x: !vk.tensor<[E], f32>, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %zero = arith.constant 0.000000e+00 : f32
  %zeros = vk.broadcast %zero : f32 -> tensor<?xf32, #vk.axes<i>>
  %first = vk.load %start[i] guarding [0] : !vk.tensor<[S], i64> -> tensor<?xi64, #vk.axes<i>>
  %c1 = arith.constant 1 : i64
  %end = vk.load %start[%c1 + i] guarding [0] : !vk.tensor<[S], i64> -> tensor<?xi64, #vk.axes<i>>
  %total = vk.range %e = %first to %end : tensor<?xi64, #vk.axes<i>> carrying (%so_far = %zeros : tensor<?xf32, #vk.axes<i>>) {
    %element = vk.gather %x[%e] : !vk.tensor<[E], f32>, (tensor<?xi64, #vk.axes<i>>) -> tensor<?xf32, #vk.axes<i>>
    %next = arith.addf %so_far, %element : tensor<?xf32, #vk.axes<i>>
    vk.yield %next : tensor<?xf32, #vk.axes<i>>
  }
  vk.store %total in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      %[[LENGTHS:[0-9]+]] = arith.subi %end, %first
// CHECK-NEXT: %[[STEPS:[0-9]+]] = vk.max %[[LENGTHS]] along i
// CHECK-NEXT: scf.for %[[STEP:[0-9]+]] = %{{[0-9]+}} to %[[STEPS]] {{.*}} iter_args(%[[OLD:[0-9]+]] =
// CHECK-NEXT:   %[[WIDE:[0-9]+]] = vk.broadcast %[[STEP]]
// CHECK-NEXT:   %e = arith.addi %first, %[[WIDE]]
// CHECK-NEXT:   %[[RUNS:[0-9]+]] = arith.cmpi slt, %e, %end
// CHECK-NEXT:   %element = vk.gather %x[%e] where %[[RUNS]]
// CHECK-NEXT:   %next = arith.addf %[[OLD]], %element
// CHECK-NEXT:   %[[NEW:[0-9]+]] = arith.select %[[RUNS]], %next, %[[OLD]]
// CHECK-NEXT:   scf.yield %[[NEW]]
