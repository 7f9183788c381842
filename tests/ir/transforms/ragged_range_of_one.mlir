// RUN: vk-opt '--apply-plan{tiles="i=1" distinct=true}' --verify-mapped %s | filecheck %s
// The ragged range of one element runs in every step of its loop, so nothing is masked.

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

// CHECK:      scf.for %[[STEP:[0-9]+]] = {{.*}} iter_args(%[[OLD:[0-9]+]] =
// CHECK:        %element = vk.gather %x[%e] : !vk.tensor
// CHECK-NEXT:   %next = arith.addf %[[OLD]], %element
// CHECK-NEXT:   scf.yield %next
