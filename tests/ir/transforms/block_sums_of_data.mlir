// RUN: vk-opt '--apply-plan{tiles="i=1" distinct=true}' '--block-sums{gpu=true threads=32}' --verify-mapped %s | filecheck %s
// RUN: vk-opt '--apply-plan{tiles="i=1" distinct=true}' '--block-sums{gpu=true threads=0}' --verify-mapped %s | filecheck %s --check-prefix MANY
// A sum whose length is in memory is added up in blocks on a GPU, too, and those with compensation. Where each thread has
// many elements of sums, every addition is compensated instead.

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

// CHECK:      arith.constant 64 : i64
// CHECK:      scf.for
// CHECK-SAME: iter_args(%[[T:[0-9]+]] = %zeros, %[[E:[0-9]+]] =
// CHECK:        %[[PART:[0-9]+]] = scf.for
// CHECK:          %next = arith.addf
// CHECK-NEXT:     scf.yield %next
// CHECK:        %[[ADDED:[0-9]+]] = arith.subf %[[PART]], %[[E]] {vk.rounded}
// CHECK-NEXT:   arith.addf %[[T]], %[[ADDED]] {vk.rounded}

// MANY:       scf.for
// MANY:         vk.gather
// MANY:         arith.subf %element, %{{[0-9]+}} {vk.rounded}
// MANY-NOT:   scf.for
