// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" lanes=j multiples="M=4","N=16" least="N=16" distinct=true}' --lower-to-ttir %s | filecheck %s
// A size that has a whole chunk at least: the loop over it surely runs.

vk.kernel @row_sums(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  vk.store %sum in %out[i] : !vk.tensor<[M], f32> <- tensor<?xf32, #vk.axes<i>>
}

// CHECK:      %[[LEAST:[0-9]+]] = arith.constant 16 : i64
// CHECK-NEXT: %[[ENOUGH:[0-9]+]] = arith.cmpi sge, %N, %[[LEAST]] : i64
// CHECK-NEXT: "llvm.intr.assume"(%[[ENOUGH]]) <{op_bundle_sizes = array<i32>}> : (i1) -> ()
// CHECK:      scf.for %{{.*}} = %{{.*}} to %N
