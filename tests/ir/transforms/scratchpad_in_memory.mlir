// RUN: vk-opt '--apply-plan{tiles="i=8" chunks="n=16" homes="s=memory" copies=s sizes="N=64" multiples="I=8" distinct=true}' --verify-mapped %s | filecheck %s
// A scratchpad that the plan keeps in memory is swap space; both of its copies are, and a loop swaps them.

vk.kernel @turn(%x: !vk.tensor<[N, I], f32>, %steps: i64, %out: !vk.tensor<[N, I], f32>) {
  %I = vk.size I
  vk.tile i < %I
  %N = vk.size N
  vk.whole n < %N
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %last = arith.subi %N, %c1 : i64
  %s = vk.scratch "s" : !vk.scratch<[n, i], f32>
  %first = vk.load %x[n, i] : !vk.tensor<[N, I], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
  vk.store %first in %s[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  vk.range %l = %c0 to %steps {
    %turned = vk.load %s[%last + -1 * n, i] : !vk.scratch<[n, i], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
    vk.boundary
    vk.store %turned in %s[n, i] : !vk.scratch<[n, i], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
  }
  %v = vk.load %s[n, i] : !vk.scratch<[n, i], f32> -> tensor<?x?xf32, #vk.axes<n, i>>
  vk.store %v in %out[n, i] : !vk.tensor<[N, I], f32> <- tensor<?x?xf32, #vk.axes<n, i>>
}

// CHECK:      vk.launch "turn"
// CHECK-NEXT:   %s = vk.buffer "s" [] : !vk.buffer<[64, 8], f32>
// CHECK-NEXT:   %s_1 = vk.buffer "s_2" [] : !vk.buffer<[64, 8], f32>
// CHECK:        scf.for %l = {{.*}} iter_args(%[[OLD:[a-z0-9_]+]] = %s, %[[NEW:[a-z0-9_]+]] = %s_1) -> (!vk.buffer<[64, 8], f32>, !vk.buffer<[64, 8], f32>)
// CHECK:          vk.barrier
// CHECK:          scf.for %n0
// CHECK:            %turned = vk.load %[[OLD]]
// CHECK-NEXT:       vk.store %turned in %[[NEW]]
// CHECK:          scf.yield %[[NEW]], %[[OLD]]
// CHECK-NOT:    vk.scratch
