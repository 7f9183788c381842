// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix RECOMPUTE
// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" homes="e=shared" sizes="N=64" multiples="M=4" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix SHARED
// RUN: vk-opt '--apply-plan{tiles="i=4" chunks="j=16" homes="e=memory" multiples="M=4","N=16" distinct=true}' --verify-mapped %s | filecheck %s --check-prefix MEMORY
// A value that crosses phases in chunks: computed again by default, or stored and loaded where its home is, with a
// barrier between.

vk.kernel @softmax(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %max = vk.max %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %mb = vk.broadcast %max : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %d = arith.subf %row, %mb : tensor<?x?xf32, #vk.axes<i, j>>
  %e = math.exp %d : tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %e along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %q = arith.divf %e, %sb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %q in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// RECOMPUTE-NOT:  vk.barrier
// RECOMPUTE:      %sum = vk.sum
// RECOMPUTE-NEXT: scf.for
// RECOMPUTE-NEXT:   vk.load %x[%i0 + i, %j0{{.*}} + j]
// RECOMPUTE:        math.exp
// RECOMPUTE:        vk.store {{.*}} in %out

// SHARED:      %e = vk.scratch "e" : !vk.scratch<[4, 64], f32>
// SHARED-NEXT: scf.for
// SHARED:        vk.store %e_1 in %e[i, %j0_1 + j]
// SHARED:      %sum = vk.sum
// SHARED-NEXT: vk.barrier
// SHARED-NEXT: scf.for
// SHARED-NOT:    math.exp
// SHARED:        vk.load %e[i, %j0_2 + j] : !vk.scratch<[4, 64], f32>

// MEMORY:      %e = vk.buffer "e" [%N] : !vk.buffer<[4, ?], f32>
// MEMORY-NEXT: scf.for
// MEMORY:        vk.store %e_1 in %e[i, %j0_1 + j]
// MEMORY:      %sum = vk.sum
// MEMORY-NEXT: vk.barrier
// MEMORY-NEXT: scf.for
// MEMORY-NOT:    math.exp
// MEMORY:        vk.load %e[i, %j0_2 + j] : !vk.buffer<[4, ?], f32>
