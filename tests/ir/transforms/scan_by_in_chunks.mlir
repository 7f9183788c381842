// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s
// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=1" multiples="M=4" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix ONE
// A scan in chunks: the loop carries the element that the scan has reached, and combines it with the scan of each chunk.
// A chunk of one position is combined without a scan.

vk.kernel @running_sums(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %zero = arith.constant 0.0 : f32
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sums = vk.scan_by %row along j from %zero : f32 : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?x?xf32, #vk.axes<i, j>> by {
  ^bb0(%p: f32, %q: f32):
    %sum = arith.addf %p, %q : f32
    vk.combined %sum : f32
  }
  vk.store %sums in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// CHECK:      scf.for %j0 = {{.*}} iter_args(%[[REACHED:[0-9]+]] = %{{[0-9]+}}) -> (tensor<4xf32, #vk.axes<i>>) : i64 {
// CHECK-NEXT:   %row = vk.load
// CHECK-NEXT:   %[[SCAN:[0-9]+]] = vk.scan_by %row along j
// CHECK:        %[[BEFORE:[0-9]+]] = vk.broadcast %[[REACHED]]
// CHECK-NEXT:   %sums = arith.addf %[[BEFORE]], %[[SCAN]]
// CHECK-NEXT:   %[[NEXT:[0-9]+]] = vk.last %sums along j
// CHECK-NEXT:   vk.store %sums in %out
// CHECK-NEXT:   scf.yield %[[NEXT]]

// ONE:        scf.for %j0 = {{.*}} iter_args(%[[REACHED:[0-9]+]] = %{{[0-9]+}}) -> (tensor<4xf32, #vk.axes<i>>) : i64 {
// ONE-NEXT:     %row = vk.load
// ONE-NEXT:     %[[HERE:[0-9]+]] = vk.last %row along j
// ONE-NEXT:     %[[NEXT:[0-9]+]] = arith.addf %[[REACHED]], %[[HERE]]
// ONE-NEXT:     %sums = vk.broadcast %[[NEXT]]
// ONE-NEXT:     vk.store %sums in %out
// ONE-NEXT:     scf.yield %[[NEXT]]
